"""The balancer seam: on which engine does a call run?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentix.core.program import ProgramRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """What a balancer may know of an engine: frozen, taken by the shell at the moment of the question.

    `num_calls` are the calls in it now (running and waiting), `num_routed` all calls ever sent to it, `cached_tokens`
    the tokens of this call's prompt that its prefix cache holds (None: unknown).
    """

    engine_id: str
    num_calls: int = 0
    num_routed: int = 0
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Engines in order of preference; `pin` = the one that gets the call becomes the program's home engine."""

    engine_ids: tuple[str, ...]
    pin: bool = False


class LoadBalancer:
    """Ranks the engines for one call; has no state and no side effects.

    The shell tries them in order, so that a refusing engine needs no exception here. `engines` holds the usable ones,
    at least one; every one of them must appear in the answer exactly once. Ties keep the order of `engines`.

    Attributes:
        uses_cached_tokens: shells are to fill in `EngineView.cached_tokens`, where they can.
    """

    uses_cached_tokens: bool = False

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """Rank `engines` for a call of `prompt_tokens` (None: unknown) of the program `row` (None: its first call)."""
        raise NotImplementedError


def by_load(engines: Sequence[EngineView]) -> tuple[str, ...]:
    """Engine ids by calls in system, fewest first."""
    return tuple(e.engine_id for e in sorted(engines, key=lambda e: e.num_calls))
