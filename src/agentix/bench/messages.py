"""Recorded messages as any OpenAI-compatible server accepts them.

Traces keep tool use as text: an answer holds its tool call in its content, and a `tool` message follows that names no
`tool_call_id`. Strict servers refuse such a message, and many chat templates drop it or fail. So:

- a `tool` message that answers no announced tool call is sent as a `user` message with the same content;
- an assistant's `tool_calls` that lack an id are moved into its content, one `<tool_call>{…}</tool_call>` each;
- everything else, properly linked tool calls too, is sent as recorded.

What a message becomes depends on it and on the messages before it only, so calls that shared a prefix still do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agentix.workload import Message


def normalise(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation to send."""
    announced: set[str] = set()  # tool call ids that an assistant message has named
    normal: list[dict[str, Any]] = []
    for message in messages:
        tool_calls = message.get("tool_calls") or []
        if message["role"] == "tool" and message.get("tool_call_id") not in announced:
            normal.append({"role": "user", "content": message.get("content") or ""})
        elif all(_id_of(call) for call in tool_calls):
            announced.update(_id_of(call) for call in tool_calls)
            normal.append(dict(message))
        else:
            normal.append(_with_calls_as_text(message, tool_calls))
    return normal


def _id_of(tool_call: Any) -> str:
    return str(tool_call.get("id") or "") if isinstance(tool_call, dict) else ""


def _with_calls_as_text(message: Message, tool_calls: list[Any]) -> dict[str, Any]:
    bodies = [call.get("function", call) if isinstance(call, dict) else call for call in tool_calls]
    calls = "\n".join(f"<tool_call>{json.dumps(body)}</tool_call>" for body in bodies)
    content = message.get("content")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    if isinstance(content, list):
        return rest | {"content": [*content, {"type": "text", "text": calls}]}
    return rest | {"content": f"{content}\n{calls}" if content else calls}
