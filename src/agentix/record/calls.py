"""A call as a recording tells it (docs/wire.md, Recordings), checked as it comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.core.errors import AgentixError
from agentix.workload.prompt_tree import Piece
from agentix.workload.trace import Message as ChatMessage

FINISHED = "finished"

Message = tuple[Piece, ...]


class RecordError(AgentixError):
    """The gateway cannot be recorded; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call that is over. Moments in seconds on the gateway's clock; tokens as the engine counts them, None: it does not.

    begun_before  its program had begun before the recording did
    parents       calls that it depends on, None: nobody knows
    prompt        its messages in pieces; empty unless it has finished, and so is `answer`
    messages      what they say; None: the recording was not to tell it, or it has no text
    """

    tenant: str
    program_id: str
    program_class: str
    begun_before: bool
    thread_id: str
    call_id: str
    parents: tuple[str, ...] | None
    outcome: str
    arrived_s: float
    over_s: float
    prompt_tokens: int | None
    output_tokens: int | None
    prompt: tuple[Message, ...]
    answer: tuple[Message, ...]
    messages: tuple[ChatMessage, ...] | None = None


def read_call(told: Mapping[str, Any]) -> RecordedCall:
    """A call from the gateway's JSON. Raises RecordError if it is not what a gateway of this version tells."""
    try:
        return RecordedCall(
            tenant=told["tenant"],
            program_id=told["program_id"],
            program_class=told["program_class"],
            begun_before=told["begun_before"],
            thread_id=told["thread_id"],
            call_id=told["call_id"],
            parents=None if told["parents"] is None else tuple(told["parents"]),
            outcome=told["outcome"],
            arrived_s=float(told["arrived_s"]),
            over_s=float(told["over_s"]),
            prompt_tokens=told["prompt_tokens"],
            output_tokens=told["output_tokens"],
            prompt=tuple(map(_message, told["prompt"])),
            answer=tuple(map(_message, told["answer"])),
            messages=None if told.get("messages") is None else tuple(told["messages"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the gateway tells of calls in another way; is it of another version? ({error!r})") from error


def _message(pieces: Any) -> Message:
    last = len(pieces) - 1
    return tuple(Piece(str(digest), int(length), index == last) for index, (digest, length) in enumerate(pieces))
