"""The gateway's door, where there are tenants: a request passes with a good key, and goes on without it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentix.gateway.errors import HTTPError, wants_anthropic
from agentix.gateway.tenants import Tenant, Tenants, bind_tenant, presented_keys, require_admin
from agentix.gateway.upstream import CREDENTIALS

logger = logging.getLogger(__name__)

# What needs no key, it and what is below it: whether the gateway lives, and the dashboard's page, which asks for one itself.
_OPEN = ("/health", "/ui")
# What shows or steers what belongs to everybody.
_ADMINS = ("/metrics", "/v1/engines")


class Gate:
    """ASGI middleware. Missing and wrong keys get the same 401, in the shape of the client's API.

    Keys are taken out of the request's headers here, so that none can reach an engine, a log or an error from further in.
    `on_refused` is told the status, code and tenant ("": nobody knows) of what is refused.
    """

    def __init__(self, app: ASGIApp, tenants: Tenants, on_refused: Callable[[int, str | None, str], None]) -> None:
        self._app = app
        self._tenants = tenants
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here: the server refuses the handshake
        tenant = self._find(Headers(scope=scope))
        kept = [(name, value) for name, value in scope["headers"] if name.lower() not in CREDENTIALS]
        scope = bind_tenant({**scope, "headers": kept}, tenant)
        if (refusal := self._refusal(scope, tenant)) is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _find(self, headers: Headers) -> Tenant | None:
        found = (self._tenants.find(key) for key in presented_keys(headers))
        return next((tenant for tenant in found if tenant is not None), None)

    def _refusal(self, scope: Scope, tenant: Tenant | None) -> Response | None:
        """What a request without the right to be here gets; None if it may pass."""
        path: str = scope["path"]
        try:
            if tenant is None and not _is_below(path, _OPEN):
                message = "the API key is missing or wrong; send it as Authorization: Bearer, or as x-api-key"
                raise HTTPError(401, message, code="invalid_api_key")
            if _is_below(path, _ADMINS):
                require_admin(Request(scope))
        except HTTPError as error:
            self._on_refused(error.status, error.code, "" if tenant is None else tenant.name)
            client = (scope.get("client") or ("?",))[0]
            logger.warning("%s from %s to %.100r: %d, %s", scope["method"], client, path, error.status, error)
            response = error.response(anthropic=wants_anthropic(path, Headers(scope=scope)))
            if error.status == 401:
                response.headers["www-authenticate"] = "Bearer"  # RFC 9110 §15.5.2
            return response
        return None


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
