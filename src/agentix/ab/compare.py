"""From the runs' files to what is compared: numbers of a run, and ratios of arms within each repeat."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from agentix.ab.config import Case
from agentix.metrics import distribution

Numbers = Mapping[str, float | None]
"""By name: `METRIC.STATISTIC` of programs, in the metric's unit, or `makespan_s`."""

ALL, SHORTER, LONGER = "all", "shorter half", "longer half"
STATISTICS = ("mean", "p95", "p99")
METRICS = ("program_token_latency_s", "jct_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run in numbers: group of programs → name → value; see `group_programs`."""

    case: Case
    groups: Mapping[str, Numbers]
    num_programs: Mapping[str, int]
    counters: Mapping[str, float | None]
    throughput_per_s: float | None  # programs
    num_failed_calls: int
    num_short_answers: int
    num_skipped_too_long: int
    num_repeated: int
    engine_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, least and greatest of one value per repeat."""

    median: float
    min: float
    max: float
    num_repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm at a point for a group of programs: spreads by name of its values, and of their ratios to the first arm's.

    A ratio is taken within a repeat, where both arms ran the same programs, and only then summed up: what differs
    between repeats does not blur it. Less than 1 is better than the first arm in every number there is.
    """

    point: str
    group: str
    arm: str
    num_programs: int
    values: Mapping[str, Spread]
    ratios: Mapping[str, Spread]


def read_run(case: Case, document: Mapping[str, Any]) -> Run:
    """The numbers of a run's file."""
    groups = group_programs(document)
    numbers = {group: _numbers(programs) for group, programs in groups.items()}
    numbers[ALL] = {**numbers[ALL], "makespan_s": document["summary"]["makespan_s"]}
    return Run(
        case=case,
        groups=numbers,
        num_programs={group: len(programs) for group, programs in groups.items()},
        counters=document["counters"],
        throughput_per_s=document["summary"]["program_throughput_per_s"],
        num_failed_calls=document["summary"]["num_calls"]["failed"],
        num_short_answers=document["summary"]["num_short_answers"],
        num_skipped_too_long=document["num_skipped_too_long"],
        num_repeated=document["num_repeated"],
        engine_version=document["engine_version"],
    )


def group_programs(document: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The run's programs: all; each kind, if there are several; those with at most the median of output tokens; the others.

    Tokens are those asked for, so that a group holds the same programs in every arm.
    """
    num_tokens: Counter[str] = Counter()
    for call in document["calls"]:
        num_tokens[call["program_id"]] += call["max_tokens"]
    middle = median(num_tokens.values())
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    kinds = sorted({program["workload"] for program in document["programs"]})
    for program in document["programs"]:
        groups[ALL].append(program)
        if len(kinds) > 1:
            groups[program["workload"]].append(program)
        groups[SHORTER if num_tokens[program["program_id"]] <= middle else LONGER].append(program)
    order = (ALL, *kinds, SHORTER, LONGER)
    return {name: groups[name] for name in order if name in groups}


def compare(runs: Sequence[Run], *, first_arm: str) -> list[Comparison]:
    """Point by point and group by group every arm that has runs, the first arm first."""
    found: dict[str, dict[str, dict[str, list[Run]]]] = {}
    for run in sorted(runs, key=lambda run: run.case.arm.name != first_arm):
        for group in run.groups:
            found.setdefault(run.case.point, {}).setdefault(group, {}).setdefault(run.case.arm.name, []).append(run)
    return [
        _comparison(point, group, arm, own, base=arms.get(first_arm, []))
        for point, groups in found.items()
        for group, arms in groups.items()
        for arm, own in arms.items()
    ]


def spread(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values there are; None without any."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    return Spread(median=median(present), min=min(present), max=max(present), num_repeats=len(present))


def _comparison(point: str, group: str, arm: str, own: Sequence[Run], *, base: Sequence[Run]) -> Comparison:
    first_of = {run.case.repeat: run.groups[group] for run in base if group in run.groups}
    values: defaultdict[str, list[float | None]] = defaultdict(list)
    ratios: defaultdict[str, list[float | None]] = defaultdict(list)
    for run in own:
        for name, value in run.groups[group].items():
            values[name].append(value)
            if run.case.repeat in first_of:
                ratios[name].append(_ratio(value, first_of[run.case.repeat][name]))
    return Comparison(
        point=point,
        group=group,
        arm=arm,
        num_programs=own[0].num_programs[group],
        values=_spreads(values),
        ratios=_spreads(ratios),
    )


def _numbers(programs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for metric in METRICS:
        values = distribution(program[metric] for program in programs)
        numbers |= {f"{metric}.{statistic}": getattr(values, statistic) for statistic in STATISTICS}
    return numbers


def _spreads(values: Mapping[str, Iterable[float | None]]) -> dict[str, Spread]:
    spreads = {name: spread(of_repeats) for name, of_repeats in values.items()}
    return {name: found for name, found in spreads.items() if found is not None}


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
