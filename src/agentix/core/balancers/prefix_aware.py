"""Prefix-aware: the engine that already holds the longest part of the call's prompt."""

from __future__ import annotations

from collections.abc import Sequence

from agentix.core.balancers.base import EngineView, LoadBalancer, Route
from agentix.core.errors import ConfigError
from agentix.core.program import ProgramRow


class PrefixAware(LoadBalancer):
    """Longest cached prefix first, then fewest calls in system; an overloaded engine comes after all that are not.

    An engine is overloaded if it has more than `more_calls` calls more than the least used one, and more than `times_calls`
    times as many. A prefix shorter than `min_match` of the prompt counts as none. Where shells do not know what is cached,
    this is least-used.

    Source: the thresholds, with these defaults, are those of SGLang's cache-aware router (`--balance-abs-threshold`,
    `--balance-rel-threshold`, `--cache-threshold`; docs.sglang.io/advanced_features/router.html), which guesses at caches.
    That caches are known exactly is llm-d's precise-prefix-cache-scorer, fed by events of the engines.
    """

    uses_cached_tokens = True

    def __init__(self, more_calls: float = 64, times_calls: float = 1.5, min_match: float = 0.3) -> None:
        if not (more_calls >= 0 and times_calls >= 1 and 0 <= min_match <= 1):
            raise ConfigError(
                "prefix_aware needs more_calls >= 0, times_calls >= 1 and 0 <= min_match <= 1, "
                f"not {more_calls}, {times_calls} and {min_match}"
            )
        self._more_calls = more_calls
        self._times_calls = times_calls
        self._min_match = min_match

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """By overload, cached prefix, and load."""
        least = min(e.num_calls for e in engines)
        enough = self._min_match * (prompt_tokens or 0)

        def place(engine: EngineView) -> tuple[bool, int, int]:
            is_overloaded = engine.num_calls > least + self._more_calls and engine.num_calls > least * self._times_calls
            cached_tokens = engine.cached_tokens or 0
            return is_overloaded, -cached_tokens if cached_tokens >= enough else 0, engine.num_calls

        return Route(engine_ids=tuple(e.engine_id for e in sorted(engines, key=place)), reason="longest cached prefix")
