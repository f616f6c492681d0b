"""What did a call cost? Read from the end of the engine's answer, without changing what the client gets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_USAGE = re.compile(rb'"usage":\s*\{')
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_DONE = (b"data: [DONE]", b"data:[DONE]")
_LONGEST_MS = 1e12  # 30 years


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Figures the engine gave, None where it gave none.

    `service_s` and `waiting_s` come from vLLM's `--enable-per-request-metrics`: from the step that first scheduled the
    call to its last token, and from its arrival in the engine to that step.
    """

    service_s: float | None = None
    waiting_s: float | None = None
    output_tokens: int | None = None


def read_account(answer: Any) -> Account:
    """The account in a complete answer or in a stream's usage chunk; empty where nothing of the kind is there."""
    if not isinstance(answer, dict):
        return Account()
    usage, metrics = answer.get("usage"), answer.get("metrics")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    queue_s, first_s, rest_s = (
        (_seconds(metrics.get(k)) for k in ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"))
        if isinstance(metrics, dict)
        else (None, None, None)
    )
    return Account(
        service_s=None if first_s is None else first_s + (rest_s or 0.0),
        waiting_s=queue_s,
        output_tokens=tokens if isinstance(tokens, int) else None,
    )


def _seconds(value_ms: Any) -> float | None:
    """A duration in seconds; None for what is none: text, NaN, a negative number."""
    return value_ms / 1000 if isinstance(value_ms, int | float) and 0 <= value_ms <= _LONGEST_MS else None


def read_json(body: bytes) -> Account:
    """The account in a complete JSON body."""
    try:
        return read_account(json.loads(body))
    except (ValueError, RecursionError):
        return Account()


class StreamAccount:
    """Reads server-sent events as they pass; holds back at most one incomplete event.

    The relay asks the engine for usage in every stream, because the figures ride on that last chunk. `keep_usage`
    False: the client did not ask for it, so this one event is left out of what it gets. All other bytes pass as they are.
    `done` is True once the stream's last event has passed.
    """

    def __init__(self, *, keep_usage: bool) -> None:
        self.account = Account()
        self.done = False
        self._keep_usage = keep_usage
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The complete events up to and including `chunk`, less the one the client did not ask for."""
        data = self._rest + chunk
        start = 0
        for end in _EVENT_END.finditer(data, max(0, len(self._rest) - 3)):  # its first bytes may have come before
            event = data[start : end.end()]
            start = end.end()
            if self._passes(event):
                yield event
        self._rest = data[start:]

    def close(self) -> bytes:
        """What is left of a stream that did not end with an empty line."""
        rest, self._rest = self._rest, b""
        return rest

    def _passes(self, event: bytes) -> bool:
        if event.startswith(_DONE):
            self.done = True
        if not _USAGE.search(event) or not event.startswith(b"data:"):
            return True
        try:
            chunk = json.loads(event[len(b"data:") :])
        except (ValueError, RecursionError):
            return True
        if not isinstance(chunk, dict):
            return True
        self.account = read_account(chunk)
        return self._keep_usage or bool(chunk.get("choices"))
