"""Figures 12 and 13: program token latency against the arrival rate, its mean and its tail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from benchmarks.paper.curves import MAIN, Sweep, extra_sweeps
from benchmarks.paper.figure import Finding, Numbers, Panel
from benchmarks.paper.point import Point
from benchmarks.paper.sweep import Outcomes, known_rate, ratio_text

# Throughputs are compared at this program token latency (s/token), for every system and workload; others stand beside it.
LATENCY = 0.05
LATENCIES = (0.03, 0.05, 0.1)

# Agentix's throughput over each system's at equal mean latency, as the paper reports it.
PAPER_RATIOS: Mapping[str, Mapping[str, float]] = {
    "chat": {"vLLM": 8.0, "vLLM-opt": 2.0, "MLFQ": 1.5},
    "react": {"vLLM": 8.0, "vLLM-opt": 2.0, "MLFQ": 1.5},
    "tree": {"vLLM": 5.0, "vLLM-opt": 2.0, "MLFQ": 2.5},
    "mixed": {"vLLM": 15.0, "vLLM-opt": 4.0, "MLFQ": 5.5},
}
# What this simulator is expected to show at least.
EXPECTED_RATIOS: Mapping[str, Mapping[str, float]] = {
    "chat": {"vLLM": 2.0},
    "react": {"vLLM": 2.0},
    "tree": {"vLLM": 2.0},
    "mixed": {"vLLM": 4.0, "vLLM-opt": 2.0},
}
_WHY = {
    "chat": "",
    "react": "",
    "tree": "",
    "mixed": "",
}


class _Latency:
    """What the two figures have in common: the sweeps, and which statistics of the latency are drawn."""

    number = ""
    statistics: tuple[str, ...] = ()

    def points(self, scale: float) -> Sequence[Point]:
        """Every system at every rate."""
        return [point for sweep in self._sweeps() for points in sweep.points(scale).values() for point in points]

    def _sweeps(self) -> Sequence[Sweep]:
        return MAIN

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Curves, and the rate that each system sustains at each latency (null: not even the lowest of its sweep)."""
        return {sweep.name: self._sweep_numbers(sweep, outcomes, scale) for sweep in self._sweeps()}

    def _sweep_numbers(self, sweep: Sweep, outcomes: Outcomes, scale: float) -> dict[str, Any]:
        numbers: dict[str, Any] = {"workload": sweep.workload, "curves": {}, "rate_per_s": {}, "runs": {}}
        for label, points in sweep.points(scale).items():
            runs = [(point.rate_per_s, outcomes[point]) for point in points]
            curves = {s: [(rate, getattr(outcome.token_latency, s)) for rate, outcome in runs] for s in self.statistics}
            numbers["curves"][label] = curves
            numbers["rate_per_s"][label] = {
                s: {str(latency): known_rate(latency, curve) for latency in LATENCIES} for s, curve in curves.items()
            }
            numbers["runs"][label] = [
                {
                    "rate_per_s": rate,
                    "jct_mean_s": outcome.jct.mean,
                    "jct_p95_s": outcome.jct.p95,
                    "latency_by_kind": outcome.latency_by_kind,
                    "hit_rate": outcome.hit_rate,
                    "mean_batch": outcome.mean_batch,
                    "makespan_s": outcome.makespan_s,
                    "num_swaps": outcome.counts.num_swaps,
                    "recomputed_tokens": outcome.counts.recomputed_tokens,
                }
                for rate, outcome in runs
            ]
        return numbers

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """A panel per sweep and statistic."""
        return [
            Panel(
                title=name,
                x="programs/s",
                y=f"{statistic} s/token",
                lines={label: curves[statistic] for label, curves in sweep["curves"].items()},
                level=LATENCY,
                log_x=True,
                log_y=True,
            )
            for statistic in self.statistics
            for name, sweep in numbers.items()
        ]


class MeanLatency(_Latency):
    """Figure 12."""

    number = "12"
    title = "Program token latency by arrival rate"
    claim = (
        "throughput at equal token latency: chat and ReAct up to 8 times vLLM, 2 times vLLM-opt, 1.5 times MLFQ; LATS 5, 2 "
        "and 2.5 times; Mixed 15, 4 and 5.5 times"
    )
    statistics = ("mean",)

    def _sweeps(self) -> Sequence[Sweep]:
        return (*MAIN, *extra_sweeps())

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Ratios at the stated latency, then at the others."""
        return list(chain.from_iterable(_compare(name, sweep) for name, sweep in numbers.items()))


class TailLatency(_Latency):
    """Figure 13."""

    number = "13"
    title = "The tail of program token latency by arrival rate"
    claim = "P95 and P99 better than MLFQ and vLLM-opt in 7 of 8 cases, up to 1.7 times the throughput"
    statistics = ("p95", "p99")

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """In how many cases the tail's throughput is the best, and by how much."""
        cases = [(name, s, sweep["rate_per_s"]) for name, sweep in numbers.items() for s in self.statistics]
        better, texts = 0, []
        for name, statistic, rates in cases:
            ours, *others = (rates[label][statistic][str(LATENCY)] or 0.0 for label in ("Agentix", "vLLM-opt", "MLFQ"))
            better += ours > max(others)
            texts.append(f"{name} {statistic} {ratio_text(ours, max(others))}")
        return [
            Finding(
                text=f"At {LATENCY} s/token Agentix carries more than the better of MLFQ and vLLM-opt in {better} of "
                f"{len(cases)} cases ({'; '.join(texts)}).",
                holds=better >= len(cases) - 1,
                why="The tail is the programs that least attained service puts last.",
            )
        ]


def _compare(name: str, sweep: Mapping[str, Any]) -> Iterable[Finding]:
    rates = {label: by_statistic["mean"] for label, by_statistic in sweep["rate_per_s"].items()}
    ours = rates["Agentix"]
    expected = EXPECTED_RATIOS.get(sweep["workload"], {})
    paper = PAPER_RATIOS.get(sweep["workload"], {})
    at = str(LATENCY)
    texts = [
        f"{ratio_text(ours[at], rates[label][at])} {label}" + (f" (paper: {paper[label]:g})" if label in paper else "")
        for label in ("vLLM", "vLLM-opt", "MLFQ")
    ]
    elsewhere = "; ".join(
        f"{latency}: " + ", ".join(ratio_text(ours[latency], rates[label][latency]) for label in ("vLLM", "vLLM-opt", "MLFQ"))
        for latency in ours
        if latency != at
    )
    yield Finding(
        text=f"**{name}**: at {at} s/token Agentix carries {_rate(ours[at])} programs/s: {', '.join(texts)}. "
        f"At other latencies: {elsewhere}.",
        holds=all((ours[at] or 0.0) >= ratio * (rates[label][at] or 0.0) for label, ratio in expected.items())
        if expected
        else None,
        why=_WHY.get(sweep["workload"], ""),
    )


def _rate(rate: float | None) -> str:
    return "no rate of the sweep in" if rate is None else f"{rate:.2f}"
