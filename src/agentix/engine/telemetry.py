"""What program scheduling has done, on its way to vLLM's own /metrics.

The plug-in runs in vLLM's engine core, /metrics is served by vLLM's API server, another process. What travels between them
is vLLM's `SchedulerStats`, after every step: a record of fixed fields, from which anything else is dropped on the way. So
the numbers ride in a field of integers by name that an engine core leaves empty (`CARRIER`; vLLM's API server fills it in
later, for LoRA), and `stat_logger.ProgramStatLogger` takes them out before anybody else looks. They are sent as what was
added since the last time: vLLM gives each record to one of its API servers, and those add up.

This file imports neither vLLM nor a Prometheus client.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from agentix.core.scheduler import Scheduler

logger = logging.getLogger(f"vllm.{__name__}")

CARRIER = "waiting_lora_adapters"
LOGGER_GROUP, LOGGER_NAME = "vllm.stat_logger_plugins", "agentix"
COUNTERS = {
    "num_parks": "Running calls that stood aside for a better one and kept their KV.",
    "num_resumes": "Parked calls that came back to the running batch with their KV.",
    "num_evictions": "Parked calls that lost their KV because its blocks were needed.",
    "recomputed_tokens": "Tokens computed again because their call had lost its KV, by eviction or by vLLM's own preemption.",
    "num_demotions": "Calls that had used up their quantum and moved to a later level.",
    "num_promotions": "Calls that moved to an earlier level, because their program starved.",
    "num_held_back": "Programs held back, so that the contexts of others stay: their waiting calls are passed by.",
    "num_displaced": "Programs held back after they had been served: others may take the place of their contexts.",
    "num_let_go": "Programs that had been held back and whose calls may run again.",
    "scheduling_us": "Seconds spent in deciding what the next step computes, vLLM's own part included.",
}
"""What is counted: the number's name on the way, and what it means. Microseconds become `scheduling_seconds`."""

_PREFIX = "agentix:"
_EVERY_S = 0.5  # between two reports of an engine at work: far below the interval of any scraper


class Telemetry:
    """Counts what the plug-in does, and reports what is new twice a second and whenever the engine falls idle.

    Costs a few additions per step. `is_received`: whether anybody reads the reports; if not there are none.
    """

    def __init__(self, *, is_received: bool) -> None:
        self._is_received = is_received
        self.counts: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._lost: dict[str, int] = {}  # by call without KV: tokens of it that had been computed
        self._next_s = 0.0

    def placed(self, old_level: int, new_level: int) -> None:
        """A call has another place in the order; the tail of its own level is none of the two that count."""
        if new_level != old_level:
            self.counts["num_demotions" if new_level > old_level else "num_promotions"] += 1

    def scheduled(self, duration_s: float) -> None:
        """A step has been decided on."""
        self.counts["scheduling_us"] += round(duration_s * 1e6)

    def lost_kv(self, call_id: str, num_computed_tokens: int) -> None:
        """The call has lost its KV of so many tokens."""
        self._lost[call_id] = num_computed_tokens

    def came_back(self, call_id: str, num_tokens: int) -> None:
        """The call has come back, with the KV of so many tokens from a cache; the rest of what it had is computed again."""
        self.counts["recomputed_tokens"] += max(0, self._lost.pop(call_id, 0) - num_tokens)

    def over(self, call_id: str) -> None:
        """The call will not come back."""
        self._lost.pop(call_id, None)

    def is_due(self, now: float, *, idle: bool) -> bool:
        """Whether to report at `now`: an idle engine may have no chance for long."""
        return self._is_received and (idle or now >= self._next_s)

    def report(self, stats: Any, now: float, calls: Mapping[tuple[str, int], int], totals: Mapping[str, int]) -> None:
        """Let vLLM's `SchedulerStats` carry the calls by state and level, and what was added to the counts.

        `totals` are counts that others keep.
        """
        self._next_s = now + _EVERY_S
        self.counts.update({name: totals[name] - self.counts[name] for name in totals.keys() & COUNTERS.keys()})
        new = self.counts - self._told
        self._told = self.counts.copy()
        try:
            carrier = getattr(stats, CARRIER)
            carrier.update({f"{_PREFIX}{name}": number for name, number in new.items()})
            carrier.update({f"{_PREFIX}{state}:{level}": number for (state, level), number in calls.items()})
        except AttributeError as error:
            self._is_received = False
            logger.error("agentix: no metrics of program scheduling: %s", error)


def count_calls(core: Scheduler, parked: Iterable[str], queues: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Calls by state and level; who waits stands in one of the queues. O(running + parked + levels · log waiting)."""
    num_running, num_parked = Counter(map(core.level, core.running)), Counter(map(core.level, parked))
    numbers = {}
    for level in range(len(core.policy.quanta_s)):
        numbers["running", level], numbers["parked", level] = num_running[level], num_parked[level]
        numbers["waiting", level] = sum(queue.num_at(level) for queue in queues)
        numbers["held", level] = sum(queue.num_at(level, held=True) for queue in queues)
    return numbers


def take_report(carried: dict[str, int]) -> tuple[Counter[str], dict[tuple[str, int], int]] | None:
    """Take a report out of what carried it: additions to the counts, and calls by state and level. None if there is none."""
    counts: Counter[str] = Counter()
    calls: dict[tuple[str, int], int] = {}
    for key in [key for key in carried if key.startswith(_PREFIX)]:
        name, _, level = key.removeprefix(_PREFIX).partition(":")
        if level:
            calls[name, int(level)] = carried.pop(key)
        else:
            counts[name] = carried.pop(key)
    return (counts, calls) if calls else None


def is_received(environ: Mapping[str, str]) -> bool:
    """Whether vLLM's API server loads our logger of statistics; if not, what we sent would be taken for names of adapters."""
    allowed = environ.get("VLLM_PLUGINS")
    is_allowed = allowed is None or LOGGER_NAME in allowed.split(",")
    return is_allowed and LOGGER_NAME in entry_points(group=LOGGER_GROUP).names
