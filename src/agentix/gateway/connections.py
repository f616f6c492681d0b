"""Connections of clients that say nothing, too slowly or too much, or are too many: closed, so that they do not add up."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from agentix.gateway.errors import HTTPError

HEADERS_TIMEOUT_S = 20.0
MAX_HEAD_BYTES = 64 * 1024  # of a request's first line and headers together; servers commonly allow 8 to 64 KiB

_MOST_FILES = 65_536
_SPARE_FILES = 128  # for logs, sockets that listen, and questions to engines

_UvicornProtocol: Any = AutoHTTPProtocol  # which of its two depends on what is installed
_IS_TOLD_OF_HEADS = hasattr(AutoHTTPProtocol, "on_headers_complete")  # httptools; h11 has a bound of its own, see `server`


def allow_files() -> None:
    """Let the process have as many files and connections open as it is allowed to let itself, up to 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections() -> int:
    """How many connections of clients the process has files for: a call may need one more, to its engine."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (_MOST_FILES if soft == resource.RLIM_INFINITY else max(64, soft - _SPARE_FILES)) // 2


class PatientProtocol(_UvicornProtocol):  # type: ignore[misc]
    """uvicorn's, with bounds on what clients can keep it busy with before anybody has asked who they are.

    A client has HEADERS_TIMEOUT_S from a request's first byte (or from connecting) to the end of its headers, and
    MAX_HEAD_BYTES for them: 431. There are at most `max_connections` (None: as many as there are files for): one more takes
    the place of the one on which nothing has been going on for longest, or is closed itself if all are in use.

    uvicorn bounds only how long a connection is idle after an answer. Bodies have bounds of their own (`body.read_bytes`).
    """

    headers_timeout_s = HEADERS_TIMEOUT_S
    max_head_bytes = MAX_HEAD_BYTES
    max_connections: int | None = None
    quiet_since_s = 0.0
    _patience: asyncio.TimerHandle | None = None
    _in_head = True
    _num_head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As usual; a request is waited for from now on."""
        super().connection_made(transport)
        self.quiet_since_s = self.loop.time()
        self._patience = self.loop.call_later(self.headers_timeout_s, self.transport.close)
        if len(self.connections) > (self.max_connections or most_connections()):
            quiet = [c for c in self.connections if isinstance(c, PatientProtocol) and c is not self and c.is_quiet]
            min(quiet, key=lambda c: c.quiet_since_s, default=self).transport.abort()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is being served on this connection."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """As usual, but of a head no more than it may have."""
        while _IS_TOLD_OF_HEADS and self._in_head and data and not self.transport.is_closing():
            room = self.max_head_bytes - self._num_head_bytes
            piece, data = data[:room], data[room:]
            self._num_head_bytes += len(piece)
            self._read(piece)
            if self._in_head and self._num_head_bytes >= self.max_head_bytes:
                self._refuse()
        if data and not self.transport.is_closing():
            self._read(data)

    def on_headers_complete(self) -> None:
        """As usual: a head is over."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """As usual: what comes now is the head of another request."""
        self._in_head, self._num_head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """As usual; the connection has been quiet from now on."""
        self.quiet_since_s = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """As usual; nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _read(self, data: bytes) -> None:
        """What uvicorn does with it; a request has come then, or its end is waited for."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.headers_timeout_s, self.transport.close)

    def _refuse(self) -> None:
        """Answer that a head is too long, unless an answer to an earlier request is under way, and hang up."""
        if self.is_quiet:
            message = f"the request's headers are longer than {self.max_head_bytes} bytes"
            body = bytes(HTTPError(431, message, code="headers_too_large").response().body)
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
