"""What runs of a benchmark, an A/B comparison and a simulation have in common: all that a report needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentix.core.errors import AgentixError

Numbers = Mapping[str, float | None]
"""By name: `METRIC.STATISTIC` of programs, in the metric's unit, or `makespan_s`."""

ALL = "all"
METRICS: Mapping[str, str] = {
    "program_token_latency_s": "program token latency (s/token)",
    "jct_s": "job completion time (s)",
}
"""Metrics of programs (docs/metrics.md), the paper's headline first, as axes name them."""

STATISTICS: Mapping[str, str] = {"mean": "mean", "p95": "P95", "p99": "P99"}
"""Of each metric, as headings name them."""
MAKESPAN = "makespan_s"


class ReportError(AgentixError):
    """A result that cannot be reported: not a result, or two that cannot be told apart. Names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpan:
    """When a call was sent, when its answer began (None: unknown) and when it was over, in seconds since the run began."""

    program_id: str
    sent_s: float
    first_token_s: float | None
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one arm.

    arm       what is compared: a label, an arm's name, or policy and balancer
    point     the load in words; runs of one point are compared
    rate_per_s  programs per second, None: all at once, as recorded, or unknown
    repeat    runs of one point and one repeat served the same programs, so they are paired
    groups    numbers of all programs, and of groups of them, such as the shorter half
    samples   metric → its value for each program that has one; empty if the result does not tell
    quantiles metric → (share of programs, value), where only a few are known
    shares    part → share of the time, in the order in which it passes; see `breakdown`
    calls     of a result that tells them, by arrival of their programs
    """

    arm: str
    point: str
    rate_per_s: float | None
    repeat: str
    groups: Mapping[str, Numbers]
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    quantiles: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    calls: Sequence[CallSpan] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What no two runs of a report may have in common."""
        return self.arm, self.point, self.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A result file: its name, what made it, and what to know of it, as (name, value) in words."""

    name: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is reported. The first run's arm is what the others are compared with."""

    sources: tuple[Source, ...]

    @property
    def runs(self) -> list[Run]:
        """All runs, in the order of the files."""
        return [run for source in self.sources for run in source.runs]

    @property
    def arms(self) -> list[str]:
        """All arms, the first one first."""
        return list(dict.fromkeys(run.arm for run in self.runs))

    @property
    def points(self) -> list[str]:
        """All points, lower rates first; those without a rate last."""
        rates = {run.point: run.rate_per_s for run in self.runs}
        return sorted(rates, key=lambda point: (rates[point] is None, rates[point] or 0.0))

    def at(self, arm: str, point: str) -> list[Run]:
        """The repeats of an arm at a point."""
        return [run for run in self.runs if run.arm == arm and run.point == point]
