"""The engines API: look at engines, add and remove them, keep calls from them for a while. For operators alone."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentix.core.errors import ConfigError
from agentix.gateway.admission import Admission
from agentix.gateway.body import is_json, read_object
from agentix.gateway.engines import EnginePool, EngineState
from agentix.gateway.engines_file import read_engine
from agentix.gateway.errors import HTTPError
from agentix.gateway.open_gate import is_here
from agentix.gateway.tenants import Tenants, require_admin

_MAX_BODY_BYTES = 64 * 1024
# Of all the process's variables only these can be named over HTTP: who may add engines cannot have other secrets sent to one.
_KEY_PREFIX = "AGENTIX_ENGINE_KEY"


class EngineAdmin:
    """Handlers over one pool. Errors are HTTPError; the app turns them into answers.

    With tenants they are for admins. Without, what changes anything is for whoever runs on the gateway's machine, even where
    others may call; pages in a browser there are kept out by the `OpenGate`.
    """

    def __init__(self, pool: EnginePool, tenants: Tenants, admission: Admission) -> None:
        self._pool = pool
        self._tenants = tenants
        self._admission = admission

    def routes(self) -> list[Route]:
        """Where they are reached."""
        return [
            Route("/v1/engines", self.list, methods=["GET"]),
            Route("/v1/engines", self.add, methods=["POST"]),
            Route("/v1/engines/{engine_id}", self.get, methods=["GET"]),
            Route("/v1/engines/{engine_id}", self.remove, methods=["DELETE"]),
            Route("/v1/engines/{engine_id}/drain", self.drain, methods=["POST"]),
            Route("/v1/engines/{engine_id}/undrain", self.undrain, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """GET /v1/engines: all of them, in the order in which they were added."""
        require_admin(request)
        data = [self._describe(state) for state in self._pool.states.values()]
        return JSONResponse({"object": "list", "data": data})

    async def get(self, request: Request) -> Response:
        """GET /v1/engines/{id}: one of them; 404 if there is none."""
        require_admin(request)
        return JSONResponse(self._describe(self._state(request)))

    async def add(self, request: Request) -> Response:
        """POST /v1/engines `{"id", "url", …}` (see `read_engine`): 201; 400 for what is wrong, 409 if the id is taken."""
        self._require_operator(request)
        fields = await read_object(request, _MAX_BODY_BYTES)
        engine_id = fields.pop("id", None)
        if not str(fields.get("api_key_env", _KEY_PREFIX)).startswith(_KEY_PREFIX):
            raise HTTPError(400, f"api_key_env must be a variable whose name begins with {_KEY_PREFIX}", param="api_key_env")
        try:
            target = read_engine(engine_id, fields)
        except ConfigError as error:
            raise HTTPError(400, str(error)) from None
        try:
            state = self._pool.add(target)
        except ConfigError as error:
            raise HTTPError(409, str(error), code="engine_exists") from None
        await self._pool.read_models(state)
        return JSONResponse(self._describe(state), status_code=201)

    async def remove(self, request: Request) -> Response:
        """DELETE /v1/engines/{id}: 200 if it is gone, 202 if it drains first; `?now=true` breaks its calls off."""
        self._require_operator(request)
        state, text = self._state(request), request.query_params.get("now", "false")
        if text not in {"true", "false"}:
            raise HTTPError(400, f"now must be true or false, not {text[:100]!r}", param="now")
        self._pool.remove(state, now=text == "true")
        removed = state.target.engine_id not in self._pool.states
        return JSONResponse({**self._describe(state), "removed": removed}, status_code=200 if removed else 202)

    async def drain(self, request: Request) -> Response:
        """POST /v1/engines/{id}/drain: it gets no more calls, and finishes those that it has."""
        return self._set(request, draining=True)

    async def undrain(self, request: Request) -> Response:
        """POST /v1/engines/{id}/undrain: it gets calls again; one that is being removed stays."""
        return self._set(request, draining=False)

    def _set(self, request: Request, *, draining: bool) -> Response:
        self._require_operator(request)
        state = self._state(request)
        self._pool.drain(state, draining=draining)
        return JSONResponse(self._describe(state))

    def _describe(self, state: EngineState) -> dict[str, Any]:
        """An engine for the wire; of one that is gone, nobody holds calls any more."""
        return describe_engine(state, self._admission if state.target.engine_id in self._pool.states else None)

    def _state(self, request: Request) -> EngineState:
        engine_id = request.path_params["engine_id"]
        if engine_id not in self._pool.states:
            known = ", ".join(self._pool.states)
            raise HTTPError(404, f"no engine {engine_id[:100]!r}; known: {known}", code="engine_not_found")
        return self._pool.states[engine_id]

    def _require_operator(self, request: Request) -> None:
        """Raise HTTPError unless this request may change something."""
        require_admin(request)
        if request.method == "POST" and not is_json(request):
            raise HTTPError(415, "the content-type must be application/json")
        if self._tenants.is_open and not is_here(request):
            message = "engines are changed from the gateway's own machine, or by a tenant with admin = true"
            raise HTTPError(403, message, "permission_error", code="not_an_admin")


def describe_engine(state: EngineState, admission: Admission | None) -> dict[str, Any]:
    """An engine as the pool knows it, and how the admission holds calls for it."""
    now, target = time.monotonic(), state.target
    return {
        "object": "engine",
        "id": target.engine_id,
        "url": target.url,
        "takes_calls": state.takes_calls,
        "healthy": state.healthy,
        "breaker": state.breaker.state(now),
        "draining": state.draining,
        "leaving": state.leaving,
        "program_scheduling": target.plugin,
        "hosted": target.hosted is not None,
        "limits": state.limit.describe(now),
        "models": None if state.models is None else sorted(state.models),
        "num_calls": state.num_calls,
        "num_routed": state.num_routed,
        **({} if admission is None else admission.describe_engine(target.engine_id)),
    }
