"""The one HTTP client that reaches the engines."""

from __future__ import annotations

import socket
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from agentix.gateway.engine_transport import EngineClient, EngineTransport

# A call may be held in an engine's queue for as long as it takes; only reaching the engine is bounded.
_TIMEOUT = httpx2.Timeout(None, connect=5.0, write=60.0)
# vLLM closes connections that were idle for 5 s; a call sent at that very moment would be lost.
_KEPT_S = 3.0
# An engine whose machine has gone without a word is noticed after 15 + 3 x 5 seconds: the kernel asks for us. Linux's names.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


def make_client() -> httpx2.AsyncClient:
    """A client that waits for answers as long as they take, follows no proxy of the environment, and keeps no cookies."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # one client's cookies are not for the next one's calls
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _KEEPALIVE if hasattr(socket, name)]
    transport = EngineTransport(keepalive_s=_KEPT_S, socket_options=options)
    return EngineClient(timeout=_TIMEOUT, transport=transport, trust_env=False, cookies=no_cookies)
