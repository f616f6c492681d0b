"""Program affinity: contexts stay on the engine that holds their KV cache, unless waiting there costs more than they do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentix.core.balancers.base import EngineView, LoadBalancer, Route, by_load
from agentix.core.errors import ConfigError
from agentix.core.program import ProgramRow

LONG_PROMPT_TOKENS = 2048


class ProgramAffinity(LoadBalancer):
    """Calls go to their program's home engine, the least used one at first; the skew guard says when to leave it.

    Where engines' queues and the cost of prompts are known, every call is weighed. It leaves home for the engine with the
    shortest queue if

        queue at home - queue there > min_gain × time to compute the prompt × (1 + calls there) / (1 + threads)

    in seconds: each call there, running or waiting, is held up by what is computed again, and the program's other calls
    under way (threads) may follow and find it computed. So one large parallel program spreads at once, and a
    conversation leaves only for an engine that has little to do. If nothing else of the program is under way, that engine is
    its new home; else home stays where it is. The way back costs as much: the same loads never send a program to and fro.

    Where they are not known, or `min_gain` is inf, this is the paper's algorithm 2 (§4.3): short calls go to the least used
    engine, since calls of different programs share a system prompt and find most of a short prefix anywhere; longer calls,
    and those of unknown length, go home.

    Args:
        long_prompt_tokens: the longest prompt that is still short where nothing is weighed; the paper's 2048.
        min_gain: how much leaving must be worth, see above. `benchmarks.cluster` shows what 1 does.
    """

    def __init__(self, long_prompt_tokens: float = LONG_PROMPT_TOKENS, min_gain: float = 1.0) -> None:
        if not long_prompt_tokens >= 0:
            raise ConfigError(f"long_prompt_tokens must not be negative: {long_prompt_tokens}")
        if not min_gain >= 0:
            raise ConfigError(f"min_gain must not be negative: {min_gain}")
        self._long_prompt_tokens = long_prompt_tokens
        self._min_gain = min_gain

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """Home first, or the engine that is worth leaving it for; the others by calls in system."""
        ranked = by_load(engines)
        is_weighed = self._min_gain < math.inf and all(
            e.queue_s is not None and e.prefill_s_per_token is not None for e in engines
        )
        if not is_weighed and prompt_tokens is not None and prompt_tokens <= self._long_prompt_tokens:
            return Route(engine_ids=ranked, reason="short prompt: least used")
        home = next((e for e in engines if row is not None and e.engine_id == row.home_engine_id), None)
        if row is None or home is None:
            return Route(engine_ids=ranked, pin=True, reason="least used, now home")
        tokens = row.context_tokens if prompt_tokens is None else prompt_tokens
        better = self._better(home, tokens, row.num_active, engines) if is_weighed and tokens else None
        if better is None:
            return Route(engine_ids=_first(home.engine_id, ranked), pin=True, reason="home")
        engine_id, why = better
        return Route(engine_ids=_first(engine_id, ranked), pin=not row.num_active, reason=why)

    def _better(
        self, home: EngineView, prompt_tokens: int, num_threads: int, engines: Sequence[EngineView]
    ) -> tuple[str, str] | None:
        """Where to go instead of home, and why; None: stay. O(engines)."""
        best = min(engines, key=lambda e: (e.queue_s or 0.0, e.num_calls))
        home_s, there_s = home.queue_s or 0.0, best.queue_s or 0.0
        prefill_s = prompt_tokens * (best.prefill_s_per_token or 0.0)
        price_s = prefill_s * (1 + best.num_calls) / (1 + num_threads)
        if not home_s - there_s > self._min_gain * price_s:
            return None
        return best.engine_id, f"moved: {home_s:.2f} s wait at home, {there_s:.2f} s here; price {price_s:.2f} s"


def _first(engine_id: str, ranked: Sequence[str]) -> tuple[str, ...]:
    return (engine_id, *(e for e in ranked if e != engine_id))
