"""Figures 4 and 5: how many calls run at once, and how much of programs' time is waiting."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper.curves import MAIN, OVERLOADED_RATE, overloaded
from benchmarks.paper.figure import Finding, Numbers, Panel
from benchmarks.paper.point import Point
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import value_at

_LOADS = (0.5, 0.7, 0.9)


class Concurrency:
    """Figure 4."""

    number = "4"
    title = "Calls at once over time"
    claim = "program-aware ordering holds about 10 more concurrent calls at steady state than FCFS"

    def points(self, scale: float) -> Sequence[Point]:
        """Every system but vLLM on Mixed, overloaded."""
        return list(overloaded(scale).values())

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Calls in the steps: over time, and their mean from a third of the arrivals to the last."""
        runs = overloaded(scale)
        return {
            "rate_per_s": OVERLOADED_RATE,
            "series": {label: outcomes[point].batch_series for label, point in runs.items()},
            "steady_batch": {label: outcomes[point].steady_batch for label, point in runs.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Agentix against FCFS on the same engine."""
        batch = numbers["steady_batch"]
        more = batch["Agentix"] - batch["vLLM-opt"]
        return [
            Finding(
                text=f"On Mixed at {numbers['rate_per_s']:g} programs/s steps hold {batch['Agentix']:.1f} calls with Agentix, "
                f"{batch['MLFQ']:.1f} with MLFQ and {batch['vLLM-opt']:.1f} with vLLM-opt ({more:+.1f}).",
                holds=more >= 5,
                why="The slots are full under every order once there are more programs than slots, so that no order can hold "
                "more calls. The paper's engine may have been short of memory instead.",
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Calls over time."""
        return [Panel(title="Mixed", x="time, s", y="calls in a step", lines=numbers["series"])]


class Waiting:
    """Figure 5."""

    number = "5"
    title = "Share of programs' time that is waiting, by load"
    claim = "under FCFS waiting is 43-63 % of program time at load 0.5 and 80-91 % at load 0.9"

    def points(self, scale: float) -> Sequence[Point]:
        """vLLM-opt at every rate."""
        return [point for sweep in MAIN for point in sweep.points(scale)["vLLM-opt"]]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean share of waiting by load, rate over capacity; capacity is what the fullest run put through."""
        curves = {}
        for sweep in MAIN:
            runs = sweep.points(scale)["vLLM-opt"]
            capacity = max(outcomes[point].capacity_per_s for point in runs)
            curves[sweep.workload] = {
                "capacity_per_s": capacity,
                "wait_by_load": [(point.rate_per_s / capacity, outcomes[point].wait) for point in runs],
            }
        return curves

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """The range over the workloads at the paper's loads."""
        shares = {
            load: [share for curve in numbers.values() if (share := value_at(load, curve["wait_by_load"])) is not None]
            for load in _LOADS
        }
        found = "; ".join(f"{min(s):.0%} to {max(s):.0%} at load {load}" for load, s in shares.items() if s)
        low, high = shares[_LOADS[0]], shares[_LOADS[-1]]
        return [
            Finding(
                text=f"Over the workloads waiting is {found or 'not known: no sweep covers these loads'}.",
                holds=bool(low and high) and max(low) >= 0.43 and max(high) >= 0.80,
                why="Load is measured here against what the engine puts through when it is full; below that a modelled engine "
                "has free slots most of the time. Which load the paper divides by, we do not know.",
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """The shares."""
        lines = {name: curve["wait_by_load"] for name, curve in numbers.items()}
        return [Panel(title="vLLM-opt (FCFS)", x="load: rate / capacity", y="waiting share of program time", lines=lines)]
