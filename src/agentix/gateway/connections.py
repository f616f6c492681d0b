"""Connections of clients that say nothing, or too slowly: closed, so that they do not add up."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADERS_TIMEOUT_S = 20.0

_UvicornProtocol: Any = AutoHTTPProtocol  # which of its two depends on what is installed


class PatientProtocol(_UvicornProtocol):  # type: ignore[misc]
    """uvicorn's, but a client has HEADERS_TIMEOUT_S from a request's first byte (or from connecting) to the end of its headers.

    uvicorn bounds only how long a connection is idle after an answer. Bodies have a bound of their own (`body.read_bytes`).
    """

    headers_timeout_s = HEADERS_TIMEOUT_S
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As usual; a request is waited for from now on."""
        super().connection_made(transport)
        self._patience = self.loop.call_later(self.headers_timeout_s, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """As usual; a request has come, or its end is waited for."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.headers_timeout_s, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """As usual; nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
