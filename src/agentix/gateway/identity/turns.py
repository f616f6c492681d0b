"""What was said, in one form for all APIs: a prompt or an answer as a sequence of turns that can be compared.

The same conversation reaches the gateway in many spellings. An answer comes as deltas and goes back as a message; content is
a string or a list of parts; Anthropic has blocks, the Responses API items. A turn is what is left without the spelling: who
speaks, and what. Reasoning is left out, because many clients do not send it back, and so are ids and cache marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentix.gateway.apis import Dialect
from agentix.gateway.preambles import without_volatile

_PREAMBLE_ROLES = frozenset({"system", "developer"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})
# Text that Claude Code puts into user messages anew for every call (to-do lists, changed files).
_REMINDER = "<system-reminder>"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said.

    Of a tool call, `ids` is the name that the engine gave it, and `strings` the text in its arguments.
    """

    role: str
    text: str
    ids: tuple[str, ...] = ()
    strings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def written(self) -> bool:
        """Whether the engine wrote it."""
        return self.role == "assistant"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a call asks: the turns, and before them the preamble, which harnesses change in the middle of a program.

    `raw`: the text of a prompt that has no turns; its lines stand in for them.
    """

    turns: tuple[Turn, ...]
    preamble: str = ""
    raw: str | None = None


def read_prompt(dialect: Dialect, body: Mapping[str, Any]) -> Prompt:
    """The prompt of a request body; without turns where there is nothing that could be compared."""
    if dialect is Dialect.COMPLETIONS:
        prompt = body.get("prompt")
        return Prompt(_lines(prompt), raw=prompt) if isinstance(prompt, str) else Prompt(())
    items = body.get("input") if dialect is Dialect.RESPONSES else body.get("messages")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    said = list(_turns(items))
    preamble = [_text(body[key]) for key in ("system", "instructions") if body.get(key)]
    preamble += [turn.text for turn in said if turn.role in _PREAMBLE_ROLES]
    return Prompt(tuple(t for t in said if t.role not in _PREAMBLE_ROLES), "\n".join(map(without_volatile, preamble)))


def read_answers(dialect: Dialect, answer: Any) -> list[tuple[Turn, ...]]:
    """What the engine wrote, once for each of its choices; [] if it is no such answer."""
    if not isinstance(answer, dict):
        return []
    if dialect is Dialect.RESPONSES:
        items = answer.get("output")
        return [tuple(_turns(items))] if isinstance(items, list) else []
    if dialect is Dialect.MESSAGES:
        return [tuple(_turns([{"role": "assistant", "content": answer.get("content")}]))]
    choices = answer.get("choices")
    read = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    if dialect is Dialect.COMPLETIONS:
        return [(Turn("assistant", c["text"]),) for c in read if isinstance(c.get("text"), str)]
    return [tuple(_turns([{**c["message"], "role": "assistant"}])) for c in read if isinstance(c.get("message"), dict)]


def append_raw(prompt: str, answer: Iterable[Turn]) -> tuple[Turn, ...]:
    """The lines of a raw prompt and of what the engine appended to it, which may begin in the middle of a line."""
    return _lines(prompt + "".join(turn.text for turn in answer))


def _lines(text: str) -> tuple[Turn, ...]:
    return tuple(Turn("text", line.rstrip()) for line in text.rstrip().split("\n"))


def _turns(items: Any) -> Iterator[Turn]:
    """The turns of a list of messages, or of the Responses API's items."""
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        match item.get("type", "message"):
            case "message":
                yield from _message(item)
            case "function_call" | "custom_tool_call":
                yield _tool_call(item.get("name"), item.get("arguments", item.get("input")), item.get("call_id"))
            case "function_call_output" | "custom_tool_call_output":
                yield Turn("tool", _text(item.get("output")))
            case kind if kind not in _REASONING:
                yield Turn("item", _canonical(item))


def _message(message: Mapping[str, Any]) -> Iterator[Turn]:
    role = message.get("role")
    role = role if isinstance(role, str) else ""
    content = message.get("content")
    if isinstance(content, str):
        yield from _words(role, content)
    for part in content if isinstance(content, list) else ():
        yield from _part(role, part)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield _tool_call(function.get("name"), function.get("arguments"), call.get("id"))


def _part(role: str, part: Any) -> Iterator[Turn]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _REASONING:
        return
    if kind == "tool_use":
        yield _tool_call(part.get("name"), part.get("input"), part.get("id"))
    elif kind == "tool_result":
        yield Turn("tool", _text(part.get("content")))
    elif kind in _TEXT_PARTS:
        yield from _words(role, part.get("text", part.get("refusal")))
    else:
        yield Turn(role, _canonical(part))


def _words(role: str, text: Any) -> tuple[Turn, ...]:
    """One turn, or none."""
    text = text.strip() if isinstance(text, str) else ""
    return (Turn(role, text),) if text and not text.startswith(_REMINDER) else ()


def _tool_call(name: Any, arguments: Any, call_id: Any) -> Turn:
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # cut short, or no JSON: compared as it is
            arguments = json.loads(arguments or "{}")
    ids = (call_id,) if isinstance(call_id, str) and call_id else ()
    return Turn("assistant", f"{name}({_canonical(arguments)})", ids, tuple(_strings(arguments)))


def _strings(value: Any) -> Iterator[str]:
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text:
                yield text
            case dict() as fields:
                rest.extend(fields.values())
            case list() as items:
                rest.extend(items)


def _text(content: Any) -> str:
    """Text of content in any form: a string, or parts with text in them."""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        return _canonical(content)
    texts = (p.get("text") if isinstance(p, dict) else None for p in content)
    return "\n".join(t.strip() if isinstance(t, str) else _canonical(p) for t, p in zip(texts, content, strict=True))


def _canonical(value: Any) -> str:
    """JSON with its keys in order, less the cache marks that move from call to call."""
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k != "cache_control"}
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=True)
    except RecursionError:
        return ""


def long_lines(turns: Iterable[Turn], min_chars: int) -> Iterator[str]:
    """The lines of at least `min_chars` characters; of tool calls, those of their arguments."""
    for text in (text for turn in turns for text in turn.strings or (turn.text,)):
        for line in text.split("\n"):
            stripped = line.strip()
            if len(stripped) >= min_chars:
                yield stripped
