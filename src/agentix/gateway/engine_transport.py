"""How requests travel to engines: aiohttp's connections and its parser in C, below httpx's client.

httpx's own transport looks at every open connection with each request, several times, and asks the kernel about idle ones:
with some hundred calls in flight that alone takes longer than all else that the gateway does for a call.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
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

_opened: ContextVar[list[socket.socket]] = ContextVar("opened")
"""Sockets that were made for the request that is being sent; none: it travels over a connection that was there before."""


class EngineTransport(httpx2.AsyncBaseTransport):
    """Connections are kept for `keepalive_s` after a call; as many may be open as there are calls.

    Answers come undecoded, redirects and cookies are nobody's business. Errors are httpx's. A response that is closed before
    its end closes its connection.

    An engine may close an idle connection at the very moment at which a request is sent into it. Nothing has happened to such a
    request, so it is sent again, over another one of those that are left and at last a fresh one (as nginx and Go's net/http
    do it; RFC 9110, section 9.2.2). What breaks off on a fresh connection is lost.
    """

    def __init__(self, *, keepalive_s: float, socket_options: Sequence[SocketOption] = ()) -> None:
        self._keepalive_s = keepalive_s
        self._socket_options = tuple(socket_options)
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; gives the beginning of its answer."""
        if self._session is None:
            self._session = self._make_session()
        with _as_httpx(request):
            answer = await self._send(self._session, request)
        return httpx2.Response(
            answer.status,
            headers=list(answer.raw_headers),
            stream=_Body(answer, request),
            request=request,
            extensions={"hang_up": answer.close},  # whoever reads the answer then gets an error
        )

    @staticmethod
    async def _send(session: aiohttp.ClientSession, request: httpx2.Request) -> aiohttp.ClientResponse:
        headers = CIMultiDict((_text(name), _text(value)) for name, value in request.headers.raw)
        limits = request.extensions.get("timeout", {})
        timeout = _read_timeout(limits.get("connect"), limits.get("read"))
        url, data = URL(str(request.url), encoded=True), await request.aread() or None
        while True:
            opened: list[socket.socket] = []
            token = _opened.set(opened)
            try:
                return await session.request(
                    request.method, url, headers=headers, data=data, allow_redirects=False, timeout=timeout
                )
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


class EngineClient(httpx2.AsyncClient):
    """httpx's client, but that a request with a whole URL, raw headers and a body is made of these alone, and sent as it is.

    httpx reads the URL twice, merges headers, cookies and parameters that the gateway has none of, and looks for redirects,
    cookies and challenges that are its clients' business, for as long as a request then takes to be sent.
    """

    def __init__(self, *, transport: EngineTransport, **options: Any) -> None:
        super().__init__(transport=transport, **options)
        self._engines = transport

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send it; a stream gives the beginning of its answer."""
        if not stream or options:
            return await super().send(request, stream=stream, **options)
        return await self._engines.handle_async_request(request)

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        """The request."""
        if options.keys() != {"headers", "content"}:
            return super().build_request(method, url, **options)
        return httpx2.Request(method, url, extensions={"timeout": self.timeout.as_dict()}, **options)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer as it comes."""

    def __init__(self, answer: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx(self._request):
            async for piece in self._answer.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        """Hang up, if the end has not come."""
        self._answer.close()


@lru_cache(maxsize=16)
def _read_timeout(connect_s: float | None, read_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=read_s)


@contextmanager
def _as_httpx(request: httpx2.Request) -> Iterator[None]:
    """Errors of aiohttp as those of httpx."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error), request=request) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error), request=request) from error
    except (TimeoutError, aiohttp.ServerTimeoutError) as error:
        raise httpx2.ReadTimeout(str(error), request=request) from error
    except (aiohttp.ClientPayloadError, aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError) as error:
        raise httpx2.RemoteProtocolError(str(error), request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(str(error), request=request) from error
    except ValueError as error:  # a header that HTTP cannot carry
        raise httpx2.LocalProtocolError(str(error), request=request) from error


def _text(raw: bytes) -> str:
    """A header's bytes as aiohttp takes them: it writes UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
