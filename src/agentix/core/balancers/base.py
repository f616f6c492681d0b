"""The balancer seam: on which engine does a call run?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentix.core.program import ProgramRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """What a balancer may know of an engine: frozen, taken by the shell at the moment of the question.

    `num_calls` are the calls in it now (running and waiting), `num_routed` all calls ever sent to it, `cached_tokens`
    the tokens of this call's prompt that its prefix cache holds. `num_waiting`: those of `num_calls` that it does not
    compute now; `call_s`: how long it computed a call, mean of those that ended lately; `prefill_s_per_token`: what it takes
    to compute a prompt, seconds per token. None: unknown.
    """

    engine_id: str
    num_calls: int = 0
    num_routed: int = 0
    cached_tokens: int | None = None
    num_waiting: int | None = None
    call_s: float | None = None
    prefill_s_per_token: float | None = None

    @property
    def queue_s(self) -> float | None:
        """Seconds that a call which came now would wait if calls took turns: those that wait × call_s / those that run.

        None: unknown. 0 if none waits, whatever a call takes.
        """
        if self.num_waiting == 0:
            return 0.0
        if self.num_waiting is None or self.call_s is None:
            return None
        return self.num_waiting * self.call_s / max(1, self.num_calls - self.num_waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Engines in order of preference; `pin` = the one that gets the call becomes the program's home engine.

    `reason`: why the first is first, in a word or two for people; it decides nothing.
    """

    engine_ids: tuple[str, ...]
    pin: bool = False
    reason: str = field(default="", compare=False)


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
