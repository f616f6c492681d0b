"""What a load's calls come to: rates and percentiles over the part of it that counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentix.metrics.summary import percentile


@dataclass(slots=True)
class Taken:
    """A call as its client saw it: moments on the monotonic clock, of sending it and of its answer's first byte and end.

    `fault`: what was wrong with it; empty: nothing, it was answered in full.
    """

    sent_s: float
    first_s: float = 0.0
    ended_s: float = 0.0
    fault: str = ""


def summarise(
    taken: Iterable[Taken], counted_s: float, over_s: float, *, lags_s: Sequence[float] | None = None
) -> dict[str, Any]:
    """Calls that were answered between the two moments, by the second; latencies of those that were sent then.

    `lags_s`: how late the generator itself was with each call.
    """
    calls = list(taken)
    good = [call for call in calls if not call.fault]
    sent = [call for call in good if counted_s <= call.sent_s < over_s]
    faults = [call.fault for call in calls if call.fault]
    summary = {
        "num_calls": len(sent),
        "num_failed": len(faults),
        "fault": faults[0] if faults else None,
        "calls_per_s": sum(counted_s <= call.ended_s < over_s for call in good) / (over_s - counted_s),
        "latency_ms": _percentiles_ms([call.ended_s - call.sent_s for call in sent]),
        "first_ms": _percentiles_ms([call.first_s - call.sent_s for call in sent]),
    }
    return summary if lags_s is None else {**summary, "lag_ms": _percentiles_ms(lags_s)}


def _percentiles_ms(values_s: Sequence[float]) -> dict[str, float] | None:
    """None if there are no values."""
    if not values_s:
        return None
    named = {"mean": fmean(values_s), "p50": percentile(values_s, 50), "p99": percentile(values_s, 99), "max": max(values_s)}
    return {name: 1000 * value for name, value in named.items() if value is not None}
