"""The client's side of a relayed call."""

from __future__ import annotations

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentix.gateway.apis import Api
from agentix.gateway.errors import HTTPError


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

    async def cancel_when_gone(self, cancel_scope: anyio.CancelScope) -> None:
        """Wait for the client to disconnect, then cancel everything that is done for it."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        cancel_scope.cancel()

    async def respond(self, response: Response) -> None:
        """Send a complete answer."""
        self._started = True
        await response(self._scope, self._receive, self._send)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the status line and headers."""
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send a piece of the body."""
        if data or last:
            await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def refuse(self, error: HTTPError) -> None:
        """Tell of an error as the whole answer."""
        await self.respond(error.response(anthropic=self._api.anthropic))

    async def fail(self, error: HTTPError) -> None:
        """Tell of an error: as an answer if none has begun, else as the stream's last event."""
        if self._started:
            await self.write(error.sse_event(self._api.dialect), last=True)
        else:
            await self.refuse(error)
