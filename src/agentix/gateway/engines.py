"""The engines behind the gateway: health, calls in flight, and the one HTTP client that reaches them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from agentix.core.balancers import EngineView
from agentix.gateway.accounting import parse_json
from agentix.gateway.config import EngineTarget

logger = logging.getLogger(__name__)

MAX_SILENT = 3
_MODELS_PERIOD_S = 30.0
# Servers that list the model they have loaded, but answer whatever name a call has.
_ANY_NAME = frozenset({"llamacpp", "sglang"})


@dataclass(slots=True)
class EngineState:
    """One engine as the gateway sees it now. `models`: the names it serves; None: it may be any.

    `any_name`: that is because it answers to any name, not because it has not said.
    """

    target: EngineTarget
    healthy: bool = True
    num_calls: int = 0
    num_routed: int = 0
    num_silent: int = 0
    models: frozenset[str] | None = None
    any_name: bool = False
    models_asked_s: float = -_MODELS_PERIOD_S

    def serves(self, model: str | None) -> bool:
        """Whether a call for `model` may go there; one that names no model may go anywhere."""
        return model is None or self.models is None or model in self.models

    def view(self) -> EngineView:
        """What a balancer may know."""
        return EngineView(engine_id=self.target.engine_id, num_calls=self.num_calls, num_routed=self.num_routed)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count one call as being in the engine."""
        self.num_calls += 1
        self.num_routed += 1
        try:
            yield
        finally:
            self.num_calls -= 1


class EnginePool:
    """All engines by id.

    An engine that cannot be reached, or leaves MAX_SILENT questions for its health unanswered, gets no calls until its
    /health answers again.
    """

    def __init__(self, targets: tuple[EngineTarget, ...], client: httpx2.AsyncClient, period_s: float) -> None:
        self.states = {t.engine_id: EngineState(t) for t in targets}
        self.client = client
        self._period_s = period_s

    def healthy(self, model: str | None = None) -> list[EngineView]:
        """Views of the engines that can take a call, for `model` if one is named."""
        return [s.view() for s in self.states.values() if s.healthy and s.serves(model)]

    async def read_models(self, state: EngineState, headers: Mapping[str, str] | None = None) -> httpx2.Response | None:
        """Ask the engine for its models and remember them; gives its answer, None if there was none.

        A list read with a client's key adds to what is known: another client's key may show more.
        """
        state.models_asked_s = time.monotonic()
        try:
            response = await self.client.get(f"{state.target.url}/v1/models", headers=headers, timeout=10.0)
        except httpx2.HTTPError:
            return None
        models = listed(response)
        names = frozenset(m["id"] for m in models)
        if any(m.get("owned_by") in _ANY_NAME for m in models):
            state.models, state.any_name = None, True
        elif names:
            state.models = names | (state.models or frozenset()) if headers else names
        return response

    def report_unreachable(self, engine_id: str, error: Exception) -> None:
        """A call could not reach the engine: send nothing more there until its health says otherwise."""
        self._set(self.states[engine_id], healthy=False, why=repr(error))

    async def watch(self) -> None:
        """Ask every engine's /health for ever."""
        while True:
            await asyncio.gather(*(self._check(s) for s in self.states.values()))
            await asyncio.sleep(self._period_s)

    async def _check(self, state: EngineState) -> None:
        try:
            response = await self.client.get(f"{state.target.url}/health", timeout=max(5.0, self._period_s))
            # A hosted or foreign server may have no /health; that it answers is enough.
            state.num_silent = 0
            self._set(state, healthy=response.status_code < 500, why=f"/health said {response.status_code}")
            if state.healthy and time.monotonic() - state.models_asked_s >= _MODELS_PERIOD_S:
                await self.read_models(state)
        except httpx2.HTTPError as error:
            # A busy engine may be slow to answer; it is not given up at the first silence. One that is gone refuses.
            state.num_silent += 1
            if isinstance(error, httpx2.ConnectError) or state.num_silent >= MAX_SILENT:
                self._set(state, healthy=False, why=repr(error))

    def _set(self, state: EngineState, *, healthy: bool, why: str) -> None:
        if healthy != state.healthy:
            logger.warning("engine %s is %s (%s)", state.target.engine_id, "back" if healthy else "unhealthy", why)
        state.healthy = healthy


def listed(response: httpx2.Response) -> list[dict[str, Any]]:
    """The models in an engine's answer; [] if it lists none, whatever else it says."""
    answer = parse_json(response.content) if response.status_code == 200 else None
    data = answer.get("data") if isinstance(answer, dict) else None
    return [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(data, list) else []
