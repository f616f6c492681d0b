"""Figures 12 and 13: program token latency against the arrival rate, its mean and its tail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from benchmarks.paper.curves import MAIN, Sweep, extra_sweeps
from benchmarks.paper.figure import Finding, Numbers, Panel
from benchmarks.paper.point import Outcome, Point
from benchmarks.paper.setup import MODEL
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import Curve, Ratio, ratio, sustained

# Throughputs are compared where the latency is this many times that of vLLM-opt at the lowest rate of its sweep, where hardly
# anybody waits: one latency for all systems of a panel. Other multiples stand beside it.
MULTIPLE = 4.0
MULTIPLES = (2.0, 3.0, 4.0, 6.0)

# Agentix's throughput over each system's at equal mean latency, as the paper reports it.
PAPER_RATIOS: Mapping[str, Mapping[str, float]] = {
    "chat": {"vLLM": 8.0, "vLLM-opt": 2.0, "MLFQ": 1.5},
    "react": {"vLLM": 8.0, "vLLM-opt": 2.0, "MLFQ": 1.5},
    "tree": {"vLLM": 5.0, "vLLM-opt": 2.0, "MLFQ": 2.5},
    "mixed": {"vLLM": 15.0, "vLLM-opt": 4.0, "MLFQ": 5.5},
}
# The least that this simulator is to show: the shape, if not the paper's numbers.
AIMS: Mapping[str, Mapping[str, float]] = {
    "chat": {"vLLM": 2.0},
    "react": {"vLLM": 2.0},
    "mixed": {"vLLM": 4.0, "vLLM-opt": 2.0},
}
_WHY = {
    "chat": "Open conversations outgrow the KV cache.",
    "react": "Programs are alike, and there is little to order.",
    "tree": "Searches are alike too; serving the least served first then makes all of them end late.",
    "mixed": "The order is as the paper has it, the distances are about half.",
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
        """Curves, and more about each run."""
        return {sweep.name: self._sweep_numbers(sweep, outcomes, scale) for sweep in self._sweeps()}

    def _sweep_numbers(self, sweep: Sweep, outcomes: Outcomes, scale: float) -> dict[str, Any]:
        runs = {label: [(p.rate_per_s, outcomes[p]) for p in points] for label, points in sweep.points(scale).items()}
        curves = {
            s: {label: [(rate, getattr(outcome.token_latency, s)) for rate, outcome in each] for label, each in runs.items()}
            for s in self.statistics
        }
        return {
            "workload": sweep.workload,
            "model": sweep.model,
            "curves": curves,
            "runs": {label: [_run(rate, outcome) for rate, outcome in each] for label, each in runs.items()},
        }

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """A panel per sweep and statistic."""
        return [
            Panel(
                title=name,
                x="programs/s",
                y=f"{statistic} s/token",
                lines=curves,
                level=MULTIPLE * reference(curves),
                log_x=True,
                log_y=True,
            )
            for statistic in self.statistics
            for name, sweep in numbers.items()
            for curves in (sweep["curves"][statistic],)
        ]


def reference(curves: Mapping[str, Curve]) -> float:
    """The latency that multiples are of: vLLM-opt's at its lowest rate."""
    return curves["vLLM-opt"][0][1]


def ratios(curves: Mapping[str, Curve], multiple: float) -> dict[str, Ratio]:
    """Agentix's throughput over each other system's, at that multiple of the reference latency."""
    latency = multiple * reference(curves)
    ours = sustained(latency, curves["Agentix"])
    return {label: ratio(ours, sustained(latency, curve)) for label, curve in curves.items() if label != "Agentix"}


def _run(rate_per_s: float, outcome: Outcome) -> dict[str, Any]:
    """What else is worth keeping of a run."""
    return {
        "rate_per_s": rate_per_s,
        "jct_mean_s": outcome.jct.mean,
        "jct_p95_s": outcome.jct.p95,
        "latency_by_kind": outcome.latency_by_kind,
        "makespan_s": outcome.makespan_s,
        "hit_rate": outcome.hit_rate,
        "mean_batch": outcome.mean_batch,
        "wait": outcome.wait,
        "num_preemptions": outcome.counts.num_preemptions,
        "num_swaps": outcome.counts.num_swaps,
        "swap_s": outcome.counts.swap_s,
        "recomputed_tokens": outcome.counts.recomputed_tokens,
        "computed_tokens": outcome.counts.computed_tokens,
    }


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
        """Ratios at the compared latency, then at others."""
        return list(chain.from_iterable(_compare(name, sweep) for name, sweep in numbers.items()))


class TailLatency(_Latency):
    """Figure 13."""

    number = "13"
    title = "The tail of program token latency by arrival rate"
    claim = "P95 and P99 better than MLFQ and vLLM-opt in 7 of 8 cases, up to 1.7 times the throughput"
    statistics = ("p95", "p99")

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """In how many cases the tail's throughput is the best, and by how much."""
        better, texts = 0, []
        for name, sweep in numbers.items():
            for statistic in self.statistics:
                found = ratios(sweep["curves"][statistic], MULTIPLE)
                least = min((found["vLLM-opt"], found["MLFQ"]), key=lambda ratio: ratio.value)
                better += least.value > 1
                texts.append(f"{name} {statistic} {least}")
        return [
            Finding(
                text=f"At {MULTIPLE:g} times vLLM-opt's latency at its lowest rate, Agentix carries more than the better of "
                f"MLFQ and vLLM-opt in {better} of {len(texts)} cases ({'; '.join(texts)}).",
                holds=better >= len(texts) - 1,
                why="The tail is the programs that least attained service puts last.",
            )
        ]


def _compare(name: str, sweep: Mapping[str, Any]) -> Iterable[Finding]:
    curves = sweep["curves"]["mean"]
    latency = MULTIPLE * reference(curves)
    found = ratios(curves, MULTIPLE)
    is_main = sweep["model"] == MODEL
    paper = PAPER_RATIOS.get(sweep["workload"], {}) if is_main else {}
    texts = [f"{each} {label}" + (f" (paper: {paper[label]:g})" if label in paper else "") for label, each in found.items()]
    elsewhere = "; ".join(
        f"at {multiple * reference(curves):.3f} " + ", ".join(map(str, ratios(curves, multiple).values()))
        for multiple in MULTIPLES
        if multiple != MULTIPLE
    )
    rate = curves["vLLM-opt"][-1][0]
    hits = ", ".join(
        f"{label} {run['hit_rate']:.0%}" for label, runs in sweep["runs"].items() for run in runs if run["rate_per_s"] == rate
    )
    yield Finding(
        text=f"**{name}**: at {latency:.3f} s/token Agentix carries {sustained(latency, curves['Agentix'])} programs/s: "
        f"{', '.join(texts)}; {elsewhere}. Prefix hits at {rate:g} programs/s: {hits}."
        + (_aim(found, AIMS[sweep["workload"]]) if is_main and sweep["workload"] in AIMS else ""),
        holds=all(found[label].is_at_least(value) for label, value in paper.items()) if paper else None,
        why=_WHY.get(sweep["workload"], ""),
    )


def _aim(found: Mapping[str, Ratio], aims: Mapping[str, float]) -> str:
    """What was aimed at, and whether it is reached."""
    is_reached = all(found[label].is_at_least(aim) for label, aim in aims.items())
    text = " and ".join(f"{aim:g}× {label}" for label, aim in aims.items())
    return f" Our aim of at least {text}: {'reached' if is_reached else 'not reached'}."
