"""The engines behind the gateway: health, calls in flight, and the one HTTP client that reaches them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from agentix.core.balancers import EngineView
from agentix.gateway.config import EngineTarget

logger = logging.getLogger(__name__)

MAX_SILENT = 3


@dataclass(slots=True)
class EngineState:
    """One engine as the gateway sees it now."""

    target: EngineTarget
    healthy: bool = True
    num_calls: int = 0
    num_routed: int = 0
    num_silent: int = 0

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

    def healthy(self) -> list[EngineView]:
        """Views of the engines that can take a call."""
        return [s.view() for s in self.states.values() if s.healthy]

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
        except httpx2.HTTPError as error:
            # A busy engine may be slow to answer; it is not given up at the first silence. One that is gone refuses.
            state.num_silent += 1
            if isinstance(error, httpx2.ConnectError) or state.num_silent >= MAX_SILENT:
                self._set(state, healthy=False, why=repr(error))

    def _set(self, state: EngineState, *, healthy: bool, why: str) -> None:
        if healthy != state.healthy:
            logger.warning("engine %s is %s (%s)", state.target.engine_id, "back" if healthy else "unhealthy", why)
        state.healthy = healthy
