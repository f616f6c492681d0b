"""An HTTP client that does nothing but time and count."""

from __future__ import annotations

import asyncio
import time

import httptools

from benchmarks.gateway.summary import Taken

_FAULT_BYTES = 300


class Client:
    """Calls to one address over connections that are kept; `taken` has one entry for each call that is over.

    `num_chunks`: events of streams so far, over all connections; `num_begun`: answers that have begun.
    """

    def __init__(self, host: str, port: int) -> None:
        self.taken: list[Taken] = []
        self.num_chunks = 0
        self.num_begun = 0
        self._address = host, port
        self._all: list[_Connection] = []
        self._free: list[_Connection] = []
        self._news = asyncio.Event()

    def tell_begun(self) -> None:
        """An answer has begun."""
        self.num_begun += 1
        self._news.set()

    async def wait_begun(self, number: int) -> None:
        """Wait until so many answers have begun."""
        while self.num_begun < number:
            self._news.clear()
            await self._news.wait()

    async def call(self, request: bytes) -> None:
        """Make one call, and wait for the end of its answer. Never raises but when cancelled."""
        try:
            connection = await self._connection()
        except OSError as error:
            self.taken.append(Taken(time.monotonic(), fault=repr(error)))
            return
        try:
            self.taken.append(await connection.exchange(request))
        except asyncio.CancelledError:
            connection.close()
            raise
        self._free.append(connection)

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in self._all:
            connection.close()

    async def _connection(self) -> _Connection:
        while self._free:
            connection = self._free.pop()
            if connection.open:
                return connection
        _, connection = await asyncio.get_running_loop().create_connection(lambda: _Connection(self), *self._address)
        self._all.append(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, with a call at a time."""

    def __init__(self, client: Client) -> None:
        self.open = False
        self._client = client
        self._waiting: asyncio.Future[Taken] | None = None

    async def exchange(self, request: bytes) -> Taken:
        """One call."""
        self._parser = httptools.HttpResponseParser(self)
        self._num_newlines, self._said = 0, b""
        self._waiting = asyncio.get_running_loop().create_future()
        self._taken = Taken(time.monotonic())
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        """Hang up."""
        self.open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The server is there."""
        self._transport, self.open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        """The server has hung up, which is no answer."""
        self.open = False
        self._end(fault=f"the connection broke off: {exc!r}")

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(fault=repr(error))
            self.close()

    def on_body(self, body: bytes) -> None:
        """A piece of an answer. An event ends with an empty line, and has no other line ends in it but its own."""
        if not self._taken.first_s:
            self._taken.first_s = time.monotonic()
            self._client.tell_begun()
        self._num_newlines += body.count(b"\n")
        self._client.num_chunks += self._num_newlines // 2
        self._num_newlines %= 2
        if len(self._said) < _FAULT_BYTES:
            self._said += body[:_FAULT_BYTES]

    def on_message_complete(self) -> None:
        """The end of an answer. An error in a stream is one as well."""
        status = self._parser.get_status_code()
        is_good = status == 200 and not self._said.startswith(b'data: {"error"')
        self._end(fault="" if is_good else f"HTTP {status}: {self._said[:_FAULT_BYTES].decode('utf-8', 'replace')}")

    def _end(self, fault: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._taken.ended_s, self._taken.fault = time.monotonic(), fault
            self._waiting.set_result(self._taken)
