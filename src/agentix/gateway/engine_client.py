"""The one HTTP client that reaches the engines, and what travels below it."""

from __future__ import annotations

import socket
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from agentix.gateway.engine_transport import EngineTransport

# A call may be held in an engine's queue for as long as it takes; only reaching the engine is bounded.
_CONNECT_S = 5.0
_TIMEOUT = httpx2.Timeout(None, connect=_CONNECT_S, write=60.0)
# vLLM closes connections that were idle for 5 s; a call sent at that very moment would be lost.
_KEPT_S = 3.0
# An engine whose machine has gone without a word is noticed after 15 + 3 x 5 seconds: the kernel asks for us. Linux's names.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


def make_transport() -> EngineTransport:
    """The connections to all engines."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _KEEPALIVE if hasattr(socket, name)]
    return EngineTransport(keepalive_s=_KEPT_S, connect_s=_CONNECT_S, socket_options=options)


def make_client(transport: EngineTransport) -> httpx2.AsyncClient:
    """A client for questions over these connections: follows no proxy of the environment, and keeps no cookies."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # one client's cookies are not for the next one's calls
    return httpx2.AsyncClient(timeout=_TIMEOUT, transport=transport, trust_env=False, cookies=no_cookies)
