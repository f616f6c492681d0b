"""An engine that sends the bytes it is told to, whatever they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_MODELS = json.dumps({"data": [{"id": "fake"}]}).encode()
_LIST = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_MODELS), _MODELS)


@dataclass
class RawEngine:
    """Answers a call with `pieces`, one write each, and hangs up. It is healthy and has the model `fake`."""

    pieces: Sequence[bytes] = ()
    models: bytes = _LIST
    url: str = ""
    num_calls: int = field(default=0, init=False)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, found, length = head.partition(b"content-length: ")
            if found:
                await reader.readexactly(int(length.split(b"\r\n")[0]))
            path = head.split()[1]
            if path == b"/health":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            elif path == b"/v1/models":
                writer.write(self.models)
            else:
                self.num_calls += 1
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen on a free loopback port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield
