"""Many values to a few: mean and percentiles, counts of what did not end well, totals of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from agentix.metrics import definitions, service
from agentix.metrics.records import CallRecord, ProgramRecord, Status

R = TypeVar("R", CallRecord, ProgramRecord)

CALL_METRICS: Mapping[str, Callable[[CallRecord], float | None]] = {
    "ttft_s": definitions.ttft_s,
    "tpot_s": definitions.tpot_s,
    "call_latency_s": definitions.call_latency_s,
    "start_lag_s": definitions.start_lag_s,
}
PROGRAM_METRICS: Mapping[str, Callable[[ProgramRecord], float | None]] = {
    "jct_s": definitions.jct_s,
    "program_token_latency_s": definitions.program_token_latency_s,
}
CALL_SERVICE_METRICS: Mapping[str, Callable[[CallRecord], float | None]] = {
    "wait_s": service.wait_s,
    "wait_to_execution": service.wait_to_execution,
    "starvation_age_s": service.starvation_age_s,
}
PROGRAM_SERVICE_METRICS: Mapping[str, Callable[[ProgramRecord], float | None]] = {
    "slowdown": service.slowdown,
    "program_wait_s": service.program_wait_s,
    "program_wait_to_execution": service.program_wait_to_execution,
    "wait_share": service.wait_share,
    "execute_share": service.execute_share,
    "swap_share": service.swap_share,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Mean, percentiles and maximum of `num_values` values; all None if there are none."""

    num_values: int
    num_no_value: int  # calls or programs for which the metric says None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in numbers. Counts are keyed by status and cover every planned program and call."""

    num_programs: Mapping[Status, int]
    num_calls: Mapping[Status, int]
    num_short_answers: int  # calls that ended well with fewer tokens than asked for: the server ignored `ignore_eos`
    makespan_s: float | None
    program_throughput_per_s: float | None
    output_token_throughput_per_s: float | None
    distributions: Mapping[str, Distribution]  # by metric name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """Where the time of a run went. All of it has a value only if the engines told what they did."""

    total_wait_s: float | None
    prefix_hit_rate: float | None
    num_preemptions: int | None
    mean_batch_size: float | None
    slowdown_fairness: float | None  # Jain's index of the programs' slowdowns
    distributions: Mapping[str, Distribution]  # by metric name


def percentile(values: Iterable[float], q: float) -> float | None:
    """The q-th percentile (0 ≤ q ≤ 100) by linear interpolation between closest ranks; None without values.

    With x_0 ≤ … ≤ x_{n-1} and h = (n - 1) q / 100 it is x_⌊h⌋ + (h - ⌊h⌋)(x_⌊h⌋+1 - x_⌊h⌋): type 7 of Hyndman and
    Fan, numpy's default.
    """
    if not 0 <= q <= 100:
        raise ValueError(f"percentile must be between 0 and 100, not {q}")
    ordered = sorted(values)
    if not ordered:
        return None
    position = (len(ordered) - 1) * q / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    between = ordered[below] + (position - below) * (ordered[above] - ordered[below])
    return min(between, ordered[above])  # rounding must not lead past the neighbour


def distribution(values: Iterable[float | None]) -> Distribution:
    """The distribution of the values there are, and how many there are not."""
    all_values = list(values)
    present = [value for value in all_values if value is not None]
    return Distribution(
        num_values=len(present),
        num_no_value=len(all_values) - len(present),
        mean=fmean(present) if present else None,
        p50=percentile(present, 50),
        p95=percentile(present, 95),
        p99=percentile(present, 99),
        max=max(present, default=None),
    )


def summarise(programs: Sequence[ProgramRecord]) -> Summary:
    """The summary of a run."""
    calls = [call for program in programs for call in program.calls]
    return Summary(
        num_programs=_by_status(program.status for program in programs),
        num_calls=_by_status(call.status for call in calls),
        num_short_answers=sum(_is_short(call) for call in calls),
        makespan_s=definitions.makespan_s(programs),
        program_throughput_per_s=definitions.program_throughput_per_s(programs),
        output_token_throughput_per_s=definitions.output_token_throughput_per_s(programs),
        distributions=_distributions(PROGRAM_METRICS, programs) | _distributions(CALL_METRICS, calls),
    )


def summarise_service(programs: Sequence[ProgramRecord], *, busy_s: float) -> ServiceSummary:
    """Where the time of a run went; `busy_s` is the time of all engines' steps together."""
    calls = [call for program in programs for call in program.calls]
    return ServiceSummary(
        total_wait_s=service.total_wait_s(programs),
        prefix_hit_rate=service.prefix_hit_rate(programs),
        num_preemptions=service.num_preemptions(programs),
        mean_batch_size=service.mean_batch_size(programs, busy_s=busy_s),
        slowdown_fairness=service.jain_index(map(service.slowdown, programs)),
        distributions=_distributions(PROGRAM_SERVICE_METRICS, programs) | _distributions(CALL_SERVICE_METRICS, calls),
    )


def _distributions(metrics: Mapping[str, Callable[[R], float | None]], records: Sequence[R]) -> dict[str, Distribution]:
    return {name: distribution(map(metric, records)) for name, metric in metrics.items()}


def _by_status(statuses: Iterable[Status]) -> dict[Status, int]:
    counts = Counter(statuses)
    return {status: counts[status] for status in Status}


def _is_short(call: CallRecord) -> bool:
    return call.status is Status.OK and call.output_tokens is not None and call.output_tokens < call.max_tokens
