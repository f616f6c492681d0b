"""What recorded calls said, as a trace tells it: each call's messages as what is new after those of its first parent. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentix.workload.trace import Message

WARNING = "holds the prompts as they were sent, with whatever people and tools put into them"
"""Stands in the `meta` of each program of a trace with text, under `text`."""

RecordedText = tuple[str, tuple[str, ...], tuple[Message, ...] | None]
"""Call id, its parents, its whole conversation; None: it has no text."""


def text_fields(calls: Iterable[RecordedText]) -> dict[str, dict[str, Any]]:
    """Call id → its `messages`, `inherits` and `keep` in the trace, from which `full_messages` makes the conversation again.

    `calls` of one program, parents first. Answers are not told by themselves: where a prompt goes on with one, it is a message
    like any other, spelled as the client sent it. O(text of the calls).
    """
    whole: dict[str, tuple[Message, ...]] = {}
    fields: dict[str, dict[str, Any]] = {}
    for call_id, parents, messages in calls:
        if messages is None:
            continue
        whole[call_id] = messages
        before = whole.get(parents[0], ()) if parents else ()
        num_shared = next(
            (n for n, (a, b) in enumerate(zip(before, messages, strict=False)) if a != b), min(map(len, (before, messages)))
        )
        fields[call_id] = {
            "messages": messages[num_shared:],
            "inherits": num_shared > 0,
            "keep": num_shared if 0 < num_shared < len(before) else None,
        }
    return fields
