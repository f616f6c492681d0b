"""The client's side of a relayed call."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentix.gateway.accounting import parse_json
from agentix.gateway.apis import Api
from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.errors import HTTPError

_ILLEGAL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # in the value of a header (RFC 9110, section 5.5)


class Downstream:
    """One client connection: sends an answer whole or in pieces, and notices when the client goes away.

    Errors have the shape of the client's API.
    """

    def __init__(self, api: Api, scope: Scope, receive: Receive, send: Send) -> None:
        self._api = api
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False
        self._ended = False

    async def cancel_when_gone(self, work: CancelScope) -> None:
        """Wait for the client to disconnect, then cancel everything that is done for it; unless it has the whole answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._ended:  # servers say so as well when an answer is complete
            work.cancel()

    async def respond(self, response: Response) -> None:
        """Send a complete answer."""
        self._started = self._ended = True
        await response(self._scope, self._receive, self._send)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the status line and headers, unless a comment has begun the answer already.

        Headers that HTTP cannot carry are left out. Raises HTTPError 502 for a status that it does not have.
        """
        if self._started:
            return
        if not 200 <= status <= 599:
            raise HTTPError(502, f"the engine answered with the status {status}, which is none", "server_error")
        self._started = True
        legal = [(name, value) for name, value in headers if not _ILLEGAL.search(value)]
        await self._send({"type": "http.response.start", "status": status, "headers": legal})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send a piece of the body."""
        self._ended |= last
        if data or last:
            await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    @property
    def started(self) -> bool:
        """Whether the status line is out."""
        return self._started

    async def comment(self, text: str, headers: list[tuple[bytes, bytes]]) -> None:
        """Send a line that SSE clients ignore, as the beginning of a stream of events if nothing was sent before."""
        if not self._started:
            await self.start(
                200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), *headers]
            )
        await self.write(f": {text}\n\n".encode())

    async def finish(self, status: int, headers: list[tuple[bytes, bytes]], data: bytes) -> None:
        """Send a whole answer: where a stream has begun, as its last event."""
        if not self._started:
            await self.start(status, [*headers, (b"content-length", str(len(data)).encode())])
            await self.write(data, last=True)
        elif status >= 400:
            await self.fail(HTTPError(status, _message(data) or f"the engine answered {status}", "server_error"))
        else:
            await self.write(b"data: " + data.replace(b"\n", b" ") + b"\n\n", last=True)

    async def refuse(self, error: HTTPError) -> None:
        """Tell of an error as the whole answer."""
        await self.respond(error.response(anthropic=self._api.anthropic))

    async def fail(self, error: HTTPError) -> None:
        """Tell of an error: as an answer if none has begun, else as the stream's last event."""
        if self._started:
            await self.write(error.sse_event(self._api.dialect), last=True)
        else:
            await self.refuse(error)


def _message(data: bytes) -> str:
    """What an engine's error says, in whatever shape; "" if it says nothing that we know of."""
    error: Any = parse_json(data)
    for key in ("error", "message"):
        error = error.get(key, error) if isinstance(error, dict) else error
    return error if isinstance(error, str) else ""
