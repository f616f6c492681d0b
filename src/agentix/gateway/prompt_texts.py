"""What a prompt says, as chat messages that any OpenAI-compatible server takes: for recordings with text alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

Message = dict[str, Any]

_PREAMBLES = ("tools", "system", "instructions")  # as chat templates have it: before what was said
_SYSTEM = frozenset({"system", "developer"})
_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "video_url", "audio_url", "file", "refusal"})
_REASONING = frozenset({"thinking", "redacted_thinking"})  # templates drop it
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call"})
_RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_ITEM_FIELDS = frozenset({"type", "id", "status"})  # of the Responses API, which chat servers may refuse


def prompt_messages(body: Mapping[str, Any]) -> list[Message] | None:
    """The conversation of a request of any API; None if it is told in token ids, which say nothing to another model.

    Chat messages stay as they are, tool calls and images included, but for cache marks. Blocks (Messages) and items (Responses)
    become chat messages with tool use as text, `<tool_call>{…}</tool_call>`, and without reasoning and media. Definitions of
    tools and instructions go to the front of the system prompt, as chat templates put them there. O(text of the prompt).
    """
    items: Any = next((body[name] for name in ("messages", "input", "prompt") if body.get(name)), [])
    said = [items] if isinstance(items, str) else items
    if not isinstance(said, list) or not all(isinstance(item, dict | str) for item in said):
        return None
    messages = [message for item in said for message in _messages(item)]
    heads = [_text(body[name]) for name in _PREAMBLES if body.get(name)]
    if heads and messages and messages[0]["role"] in _SYSTEM:
        heads.append(_text(messages.pop(0)["content"] or ""))
    return [{"role": "system", "content": "\n\n".join(heads)}, *messages] if heads else messages


def _messages(item: str | Message) -> Iterator[Message]:
    if isinstance(item, str):
        yield {"role": "user", "content": item}
        return
    role, content = item.get("role"), item.get("content")
    if item.get("type") in _CALLS | _RESULTS:
        role, content = "assistant", [item]
    if not isinstance(role, str):
        return  # reasoning, or a reference to what the server keeps
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if not isinstance(content, list) or all(part.get("type") in _CHAT_PARTS for part in parts):
        kept = {name: value for name, value in item.items() if name not in _ITEM_FIELDS}
        unmarked = [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]
        yield {**kept, "content": unmarked or (content if isinstance(content, str | list | None) else _text(content))}
        return
    said = [_said(role, part) for part in parts if part.get("type") not in _REASONING]
    for speaker, texts in groupby(said, key=lambda pair: pair[0]):
        yield {"role": speaker, "content": "\n\n".join(text for _, text in texts)}


def _said(role: str, part: Message) -> tuple[str, str]:
    """Who says what in a block or an item."""
    kind = part.get("type")
    if kind in _CALLS:
        call = {"name": part.get("name"), "arguments": _read(part.get("input", part.get("arguments")))}
        return role, f"<tool_call>{json.dumps(call)}</tool_call>"
    if kind in _RESULTS:
        return "tool", _text(part.get("content", part.get("output")))
    return role, part["text"] if isinstance(part.get("text"), str) else f"[{kind}]"


def _read(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _text(value: Any) -> str:
    """Text as it is and that of parts, everything else as JSON."""
    if isinstance(value, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in value):
        return "\n\n".join(part["text"] for part in value)
    return value if isinstance(value, str) else json.dumps(value)
