"""The door of a gateway without keys: it serves people and programs of this machine, and no web page that uses them.

A browser sends requests for any page that asks it to, from this machine, and so would be taken for its user. Three things tell
such a request: its `Origin`; `Sec-Fetch-Site`, where there is no Origin (Fetch Metadata, W3C); and the `Host`, where a page's
own name was pointed at this machine ("DNS rebinding"), for then it has the same origin. With keys none of it matters: a
browser sends no Bearer token by itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agentix.gateway.errors import HTTPError, wants_anthropic
from agentix.gateway.tenants import bind_tenant

logger = logging.getLogger(__name__)

# Probes and Prometheus ask by whatever name a cluster has for this machine. To them /health tells the status alone.
_PROBED = ("/health", "/metrics")
# What a page of another site may open in a window of its own, where it cannot read it: the dashboard, which has no data in it.
_PAGES = ("/ui", "/ui/", "/ui/index.html")
_KEYS = "make keys (`agentix key`, docs/tenants.md)"
_PASSED_ON = ("x-forwarded-for", "x-real-ip")
_PORT = re.compile(r":\d*$")
_FORWARDED_FOR = re.compile(r'(?:^|[;,])\s*for\s*=\s*("(?:[^"\\]|\\.)*"|[^;,\s]+)', re.IGNORECASE)  # RFC 7239 §4


class OpenGate:
    """ASGI middleware for a gateway without tenants: all paths, known or not, and 403 with the way out.

    `hosts`: names by which the operator has people call it, beside `localhost` and addresses ("*": any). `origins`: web pages
    of these may use it ("*": all). `remote`: clients of other machines are meant to be served. `on_refused` is told the
    status, code and tenant ("") of what is refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        remote: bool = False,
        on_refused: Callable[[int, str | None, str], None],
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._remote = remote
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here: the server refuses the handshake
        request = Request(scope)
        try:
            self._check_page(request)
            self._check_client(request)
            if not self._is_served(request.headers.get("host", "")):
                scope = _as_a_stranger(scope, request)
        except HTTPError as error:
            self._on_refused(error.status, error.code, "")
            client = (scope.get("client") or ("?",))[0]
            logger.warning("%s from %s to %.100r: %d, %s", scope["method"], client, scope["path"], error.status, error)
            await error.response(anthropic=wants_anthropic(scope["path"], request.headers))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_page(self, request: Request) -> None:
        """Raise HTTPError 403 for what a page of another origin makes a browser send."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        if "*" in self._origins or origin in self._origins:
            return
        foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
        if foreign or (site not in {"none", "same-origin"} and not _is_opened(request)):
            whose = f"pages of {origin[:100]!r}" if origin is not None else "pages of other sites"
            raise _refusal(f"not for {whose}, unless --cors-origin names them", "foreign_origin")

    def _check_client(self, request: Request) -> None:
        """Raise HTTPError 403 for a client of another machine, be it behind a proxy on this one."""
        address = None if self._remote else next((a for a in _clients(request) if not _is_loopback(a)), None)
        if address is not None:
            message = f"without keys this gateway serves its own machine alone, and this comes from {address[:100]!r}"
            raise _refusal(f"{message}; {_KEYS}, or start it with --insecure", "not_local")

    def _is_served(self, host: str) -> bool:
        """Whether a Host header is ours: a number cannot have been pointed here, any other name must be known."""
        name = _PORT.sub("", host).rstrip(".").lower()
        is_known = name in self._hosts or "*" in self._hosts
        return not host or is_known or name == "localhost" or name.endswith(".localhost") or is_address(name.strip("[]"))


def is_here(request: Request) -> bool:
    """Whether a request comes from this machine, as far as it tells; one through a proxy is where the proxy says."""
    return all(map(_is_loopback, _clients(request)))


@lru_cache(maxsize=1024)
def is_address(name: str) -> bool:
    """Whether this is an IP address."""
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _as_a_stranger(scope: Scope, request: Request) -> Scope:
    """The scope of a request to a name that is not ours: a probe's, which sees little. Raises HTTPError 403 for others."""
    if scope["path"] not in _PROBED:
        message = f"this gateway has no keys and is not called {request.headers['host'][:100]!r}: use localhost or an address"
        raise _refusal(f"{message}, name it with --allow-host, or {_KEYS}", "unknown_host")
    return bind_tenant(scope, None) if scope["path"] == "/health" else scope


def _is_opened(request: Request) -> bool:
    """Whether somebody has followed a link to the dashboard: a window of its own, which the page with the link cannot read."""
    headers = request.headers
    is_window = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return is_window and request.method == "GET" and request.scope["path"] in _PAGES


def _clients(request: Request) -> Iterator[str]:
    """Whom a request comes from: who has connected, and all for whom proxies say that they pass it on."""
    if request.client is not None:
        yield request.client.host
    for name, value in request.headers.items():
        if name in _PASSED_ON:
            yield from (part.strip() for part in value.split(",") if part.strip())
        elif name == "forwarded":
            yield from (found.strip('"') for found in _FORWARDED_FOR.findall(value))


@lru_cache(maxsize=1024)  # of every request: the same few
def _is_loopback(client: str) -> bool:
    """Whether an address, perhaps with a port, is this machine's own. What is no address (`unknown`, `_hidden`) is not."""
    bare = re.fullmatch(r"\[(.+)\](?::\w+)?", client) or re.fullmatch(r"([^:]+)(?::\w+)?", client)
    try:
        address = ip_address(bare[1] if bare else client)
    except ValueError:
        return client == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _refusal(message: str, code: str) -> HTTPError:
    return HTTPError(403, message, "permission_error", code=code)
