"""A recorded conversation as calls: every assistant message is the answer of one.

Token counts are estimates, as no tokenizer is at hand: a token per 4 characters, rounded up, plus 4 for each message of a
prompt and 3 for the start of the answer. The counts that the files' own services saw are not in them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentix.workload.trace import Call, Message

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
TOKENS_PER_PROMPT = 3
_AFTER = {"user": "human", "tool": "tool"}


def conversation_calls(messages: Sequence[Message], *, gaps_s: Sequence[float | None] = ()) -> tuple[Call, ...]:
    """One call per assistant message, each inheriting all that came before; what follows the last one is left out.

    `gaps_s` are the seconds after each call; fewer than calls means that the rest are unknown. Tool calls in an answer
    become text, `<tool_call>{...}</tool_call>`. Of other messages role, content and name are kept.
    """
    calls: list[Call] = []
    new: list[Message] = []
    num_tokens = TOKENS_PER_PROMPT
    for position, message in enumerate(messages):
        text = message_text(message)
        if message["role"] != "assistant":
            new.append({key: message[key] for key in ("role", "content", "name") if message.get(key) is not None})
            num_tokens += TOKENS_PER_MESSAGE + estimated_tokens(text)
            continue
        index = len(calls)
        following = messages[position + 1]["role"] if position + 1 < len(messages) else None
        calls.append(
            Call(
                call_id=f"c{index}",
                parents=(f"c{index - 1}",) if index else (),
                inherits=index > 0,
                messages=tuple(new),
                prompt_tokens=num_tokens,
                output_tokens=max(1, estimated_tokens(text)),
                output_text=text,
                tool_gap_s=gaps_s[index] if index < len(gaps_s) else None,
                after="end" if following is None else _AFTER.get(following),
            )
        )
        num_tokens += TOKENS_PER_MESSAGE + estimated_tokens(text)
        new = []
    return tuple(calls)


def estimated_tokens(text: str) -> int:
    """Tokens of a text, at four characters each, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def message_text(message: Message) -> str:
    """The message's text, tool calls included. A list of content parts gives the text of its text parts."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    listed = message.get("tool_calls")
    tool_calls = listed if isinstance(listed, list) else []
    calls = [f"<tool_call>{json.dumps(_function(call))}</tool_call>" for call in tool_calls]
    return "\n".join([*([content] if content else []), *calls])


def _function(tool_call: Any) -> Any:
    return tool_call.get("function", tool_call) if isinstance(tool_call, dict) else tool_call
