"""Calls as a recording tells them, made by hand."""

from __future__ import annotations

from typing import Any

from agentix.record.calls import Message, RecordedCall
from agentix.workload.prompt_tree import Piece


def message(*pieces: tuple[str, int]) -> Message:
    """A message of (digest, characters)."""
    return tuple(Piece(digest, length, index == len(pieces) - 1) for index, (digest, length) in enumerate(pieces))


def recorded(call_id: str, arrived_s: float, over_s: float, *, program_id: str = "p", **fields: Any) -> RecordedCall:
    """A call that finished: 10 tokens in, 2 out, of unknown parents, unless `fields` say otherwise."""
    known = {
        "tenant": "",
        "program_class": "",
        "begun_before": False,
        "thread_id": "",
        "parents": None,
        "outcome": "finished",
        "prompt_tokens": 10,
        "output_tokens": 2,
        "prompt": (),
        "answer": (),
    }
    return RecordedCall(call_id=call_id, program_id=program_id, arrived_s=arrived_s, over_s=over_s, **{**known, **fields})
