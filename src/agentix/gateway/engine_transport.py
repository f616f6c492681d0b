"""How requests travel to engines: aiohttp's connections and its parser in C, for calls as they are, for questions below httpx.

httpx's own transport looks at every open connection with each request, several times, and asks the kernel about idle ones:
with some hundred calls in flight that alone takes longer than all else that the gateway does for a call. Its requests and
answers read URLs and headers anew that the gateway has read already, so calls do without them.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import aiohttp
import httpx2
from multidict import CIMultiDict
from yarl import URL

_MAX_HEADER_BYTES = 2**16
_READ_BYTES = 2**16  # how much of an answer is held for a client that reads more slowly than the engine writes: twice that

SocketOption = tuple[int, int, int]
RawHeaders = Sequence[tuple[bytes, bytes]]

_opened: ContextVar[list[socket.socket]] = ContextVar("opened")
"""Sockets that were made for the request that is being sent; none: it travels over a connection that was there before."""


class EngineAnswer(httpx2.AsyncByteStream):
    """An answer whose status and headers are there. Its body comes as it is read, undecoded; errors are httpx's."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status_code = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self.raw_headers: RawHeaders = answer.raw_headers
        self._answer = answer

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return await self._answer.content.read()
        except _FAULTS as error:
            raise _as_httpx(error) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body in pieces."""
        try:
            async for piece in self._answer.content.iter_any():
                yield piece
        except _FAULTS as error:
            raise _as_httpx(error) from error

    def close(self) -> None:
        """Hang up, if the end has not come: whoever reads the answer then gets an error."""
        self._answer.close()

    async def aclose(self) -> None:
        """The same for httpx."""
        self.close()


class EngineTransport(httpx2.AsyncBaseTransport):
    """Connections are kept for `keepalive_s` after a call; as many may be open as there are calls.

    A call waits for its answer as long as that takes, and `connect_s` for its connection. Redirects and cookies are nobody's
    business. An answer that is closed before its end closes its connection.

    An engine may close an idle connection at the very moment at which a request is sent into it. Nothing has happened to such a
    request, so it is sent again, over another one of those that are left and at last a fresh one (as nginx and Go's net/http
    do it; RFC 9110, section 9.2.2). What breaks off on a fresh connection is lost.
    """

    def __init__(self, *, keepalive_s: float, connect_s: float, socket_options: Sequence[SocketOption] = ()) -> None:
        self._keepalive_s = keepalive_s
        self._patient = _read_timeout(connect_s, None)
        self._socket_options = tuple(socket_options)
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of httpx's."""
        limits = request.extensions.get("timeout", {})
        patience = _read_timeout(limits.get("connect"), limits.get("read"))
        url, content = URL(str(request.url), encoded=True), await request.aread()
        answer = await self.open(request.method, url, request.headers.raw, content, patience)
        headers = list(answer.raw_headers)
        return httpx2.Response(answer.status_code, headers=headers, stream=answer, request=request)

    async def open(
        self, method: str, url: URL, headers: RawHeaders, content: bytes, patience: aiohttp.ClientTimeout | None = None
    ) -> EngineAnswer:
        """Send a request; gives the beginning of its answer. Raises httpx's errors."""
        if self._session is None:
            self._session = self._make_session()
        try:
            fields = CIMultiDict((_text(name), _text(value)) for name, value in headers)
            return await self._send(self._session, method, url, fields, content, patience or self._patient)
        except _FAULTS as error:
            raise _as_httpx(error) from error

    @staticmethod
    async def _send(
        session: aiohttp.ClientSession,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        content: bytes,
        patience: aiohttp.ClientTimeout,
    ) -> EngineAnswer:
        while True:
            opened: list[socket.socket] = []
            token = _opened.set(opened)
            try:
                answer = await session.request(
                    method, url, headers=headers, data=content or None, allow_redirects=False, timeout=patience
                )
                return EngineAnswer(answer)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError):
                if opened:
                    raise
            finally:
                _opened.reset(token)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _make_session(self) -> aiohttp.ClientSession:
        """Made with the first request: it belongs to the event loop that runs then."""
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=self._keepalive_s, socket_factory=self._make_socket, ssl=httpx2.create_ssl_context()
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            read_bufsize=_READ_BYTES,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )

    def _make_socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        for option in self._socket_options:
            made.setsockopt(*option)
        _opened.get().append(made)
        return made


@lru_cache(maxsize=16)
def _read_timeout(connect_s: float | None, read_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=read_s)


# Errors of aiohttp as those of httpx; the first that fits.
_ERRORS: tuple[tuple[tuple[type[Exception], ...], type[httpx2.TransportError]], ...] = (
    ((aiohttp.ClientConnectorError,), httpx2.ConnectError),
    ((aiohttp.ConnectionTimeoutError,), httpx2.ConnectTimeout),
    ((TimeoutError, aiohttp.ServerTimeoutError), httpx2.ReadTimeout),
    (
        (aiohttp.ClientPayloadError, aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError),
        httpx2.RemoteProtocolError,
    ),
    ((aiohttp.ClientError, OSError), httpx2.ReadError),
    ((ValueError,), httpx2.LocalProtocolError),  # a header that HTTP cannot carry
)
_FAULTS = (aiohttp.ClientError, OSError, ValueError)


def _as_httpx(error: Exception) -> httpx2.TransportError:
    return next(kind for kinds, kind in _ERRORS if isinstance(error, kinds))(str(error))


def _text(raw: bytes) -> str:
    """A header's bytes as aiohttp takes them: it writes UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
