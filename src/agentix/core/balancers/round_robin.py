"""Round-robin over engines."""

from __future__ import annotations

from collections.abc import Sequence

from agentix.core.balancers.base import EngineView, LoadBalancer, Route
from agentix.core.program import ProgramRow


class RoundRobin(LoadBalancer):
    """The engine that was sent the fewest calls so far: turns, without remembering whose turn it is."""

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """By calls ever routed, fewest first."""
        return Route(engine_ids=tuple(e.engine_id for e in sorted(engines, key=lambda e: e.num_routed)), reason="its turn")
