"""Least-used: the engine with the least work."""

from __future__ import annotations

from collections.abc import Sequence

from agentix.core.balancers.base import EngineView, LoadBalancer, Route, by_load
from agentix.core.program import ProgramRow


class LeastUsed(LoadBalancer):
    """The engine with the fewest calls in system."""

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """By calls in system, fewest first."""
        return Route(engine_ids=by_load(engines), reason="least used")
