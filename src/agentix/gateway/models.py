"""Which engine serves which model: learned from the engines' own lists, shown to clients as one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import Response

from agentix.core.balancers import EngineView
from agentix.gateway.engines import EnginePool, EngineState, listed
from agentix.gateway.errors import HTTPError
from agentix.gateway.upstream import upstream_auth

_REFRESH_S = 1.0  # how often calls may have lists read that are unknown, or that lack their model


class Models:
    """The models of all engines.

    A call goes to the engines that list its model. One whose list is unknown (it wants a key that only clients have) may
    serve anything, until a client's key has opened it. A model that nobody lists is asked for once more, because an engine may
    just have loaded it, and is then a 404.
    """

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._refreshed_s = -_REFRESH_S
        self._learned_s = -_REFRESH_S

    async def engines_for(self, model: Any, headers: Mapping[str, str]) -> list[EngineView]:
        """The engines that can take a call for `model` now. Raises HTTPError: 503 if there are none, 404 if none ever will."""
        name = model if isinstance(model, str) and model else None
        if len(self._pool.states) > 1:
            await self._learn_with(headers)
        engines = self._pool.healthy(name)
        if engines or name is None:
            return self._some(engines)
        now = time.monotonic()
        if now - self._refreshed_s >= _REFRESH_S:
            self._refreshed_s = now
            await self._ask(self._healthy(), headers)
            engines = self._pool.healthy(name)
        if not engines and not any(s.serves(name) for s in self._pool.states.values()) and self._healthy():
            raise HTTPError.no_model(name, _printable({m for s in self._pool.states.values() for m in s.models or ()}))
        return self._some(engines)

    async def show_all(self, request: Request) -> Response:
        """GET /v1/models: the models of all engines, each once, as the engines describe them."""
        models = await self._described(request)
        return models if isinstance(models, Response) else _as_json({"object": "list", "data": list(models.values())})

    async def show(self, request: Request) -> Response:
        """GET /v1/models/{id}: one of them; 404 if there is none."""
        models = await self._described(request)
        if isinstance(models, Response):
            return models
        name = request.path_params["model"]
        if name not in models:
            raise HTTPError.no_model(name, _printable(models))
        return _as_json(models[name])

    async def _described(self, request: Request) -> dict[str, Any] | Response:
        """The models by name; if no engine gives its list, what one of them says instead."""
        responses = [r for r in await self._ask(self._healthy(), request.headers) if r is not None]
        good = [r for r in responses if r.status_code == 200]
        if not responses:
            raise HTTPError.no_engine()
        if not good:
            return Response(responses[0].content, responses[0].status_code, media_type="application/json")
        models: dict[str, Any] = {}
        for response in good:
            for model in listed(response):
                models.setdefault(model["id"], model)
        return models

    async def _learn_with(self, headers: Mapping[str, str]) -> None:
        """Ask engines that keep their lists to clients with a key."""
        now = time.monotonic()
        unknown = [s for s in self._healthy() if s.models is None and not s.any_name]
        if unknown and now - self._learned_s >= _REFRESH_S and upstream_auth(headers):
            self._learned_s = now
            await self._ask(unknown, headers)

    async def _ask(self, states: list[EngineState], headers: Mapping[str, str]) -> list[httpx2.Response | None]:
        return await asyncio.gather(*(self._pool.read_models(s, upstream_auth(headers)) for s in states))

    def _healthy(self) -> list[EngineState]:
        return [s for s in self._pool.states.values() if s.healthy]

    @staticmethod
    def _some(engines: list[EngineView]) -> list[EngineView]:
        if not engines:
            raise HTTPError.no_engine()
        return engines


def _as_json(said: Any) -> Response:
    """What engines say, in ASCII: JSON can name half a surrogate pair, UTF-8 cannot."""
    return Response(json.dumps(said), media_type="application/json")


def _printable(names: Iterable[str]) -> list[str]:
    """Names that can stand in a message, in order."""
    return sorted(name for name in names if name.isprintable())
