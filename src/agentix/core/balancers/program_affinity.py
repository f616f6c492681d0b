"""Program affinity: long contexts stay on the engine that holds their KV cache (paper §4.3, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

from agentix.core.balancers.base import EngineView, LoadBalancer, Route, by_load
from agentix.core.errors import ConfigError
from agentix.core.program import ProgramRow

LONG_PROMPT_TOKENS = 2048


class ProgramAffinity(LoadBalancer):
    """Short calls go to the least used engine, longer ones to their program's home engine.

    Calls of one program share over 90 % of their tokens at any length, calls of different programs only a system
    prompt; a short call finds most of its prefix anywhere. The first long call makes the least used engine the
    program's home. A call of unknown length counts as long.

    `long_prompt_tokens`: the longest prompt that is still short; the paper's 2048, unless tuned.
    """

    def __init__(self, long_prompt_tokens: float = LONG_PROMPT_TOKENS) -> None:
        if not long_prompt_tokens >= 0:
            raise ConfigError(f"long_prompt_tokens must not be negative: {long_prompt_tokens}")
        self._long_prompt_tokens = long_prompt_tokens

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """Home engine first for a long call, the others (and all for a short one) by calls in system."""
        ranked = by_load(engines)
        if prompt_tokens is not None and prompt_tokens <= self._long_prompt_tokens:
            return Route(engine_ids=ranked)
        home = row.home_engine_id if row is not None else None
        if home in ranked:
            ranked = (home, *(e for e in ranked if e != home))
        return Route(engine_ids=ranked, pin=True)
