"""A stream of server-sent events on its way to the client: what it costs, what it says, and whether it is complete."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentix.gateway.accounting import Account, parse_json, read_account
from agentix.gateway.apis import Api, Dialect
from agentix.gateway.deltas import Deltas

_EVENT_END = re.compile(rb"\r?\n\r?\n")
# Outside of a string: a quote within one is written as \".
_NULL_USAGE = re.compile(rb',\s*"usage":\s*null(?=\s*[,}])')
_PIECES = ("content", "text", "reasoning", "reasoning_content", "tool_calls")
_LAST_EVENTS = frozenset({"message_stop", "response.completed", "response.failed", "response.incomplete"})


class EventStream:
    """Reads events as they pass; holds back at most one incomplete event.

    The relay asks the engine for usage in every stream, because the figures ride on that last chunk. `keep_usage` False: the
    client did not ask for it, so that one event is left out of what it gets, and so is the `"usage": null` that some servers
    then put into every other one. All other bytes pass as they are. `begun` and `done` are True once the first event that says
    anything, and the last event, have passed or are what `feed` gives next; `error` is then what an event has told of as such,
    else None.
    """

    def __init__(self, api: Api, *, keep_usage: bool) -> None:
        self.account = Account()
        self.begun = False
        self.done = False
        self.error: Any = None
        self._deltas = Deltas(api.dialect)
        self._keep_usage = keep_usage or not api.asks_for_usage
        self._rest = b""
        self._responses = api.dialect is Dialect.RESPONSES

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The complete events up to and including `chunk`, less the one the client did not ask for."""
        data = self._rest + chunk
        start = 0
        for end in _EVENT_END.finditer(data, max(0, len(self._rest) - 3)):  # its first bytes may have come before
            event = data[start : end.end()]
            start = end.end()
            if passed := self._read(event):
                yield passed
        self._rest = data[start:]

    def close(self) -> bytes:
        """What is left of a stream that did not end with an empty line."""
        rest, self._rest = self._rest, b""
        return rest

    def answer(self) -> dict[str, Any] | None:
        """The answer so far, as it would have come without streaming; None if there is none."""
        return self._deltas.answer()

    def _read(self, event: bytes) -> bytes:
        """The event as it passes; empty if it does not."""
        data = _data(event)
        if data.startswith(b"[DONE]"):
            self.done = True
            return event
        said = parse_json(data) if data else None
        if not isinstance(said, dict):
            return event
        kind = said.get("type")
        self.error = self.error or told_error(said)
        self.done = self.done or (isinstance(kind, str) and kind in _LAST_EVENTS)
        self.begun = self.begun or _says_something(said)
        self._deltas.add(said)
        if "usage" in said or "response" in said or "message" in said:
            self.account = self.account.updated(read_account(said))
        if self._keep_usage or "usage" not in said:
            return event
        if isinstance(said["usage"], dict):
            return event if said.get("choices") else b""
        return _NULL_USAGE.sub(b"", event, count=1) if said["usage"] is None else event


def told_error(event: Mapping[str, Any]) -> Any:
    """The error that an event of a stream tells of, in whatever API; None: it tells of none."""
    kind = event.get("type")
    if kind == "response.failed":
        return event
    return event.get("error") or (event if kind == "error" else None)


def is_engines_fault(error: Any) -> bool:
    """Whether an error is of the engine's making: it does not say that the client is at fault."""
    code = error.get("code") if isinstance(error, dict) else None
    return not (isinstance(code, int) and 400 <= code < 500)


def _data(event: bytes) -> bytes:
    """The data of an event; of several lines of it, the first."""
    start = 0 if event.startswith(b"data:") else event.find(b"\ndata:") + 1
    if not start and not event.startswith(b"data:"):
        return b""
    end = event.find(b"\n", start)
    return event[start + len(b"data:") : end if end >= 0 else len(event)].strip()


def _says_something(event: dict[str, Any]) -> bool:
    """Whether there is a piece of the answer in the event: text, reasoning or a tool call."""
    kind = event.get("type")
    if isinstance(kind, str):  # Responses and Messages
        return kind.endswith((".delta", "_delta")) and kind != "message_delta"
    choices = event.get("choices")
    pieces = [c.get("delta", c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    return any(isinstance(p, dict) and any(p.get(key) for key in _PIECES) for p in pieces)
