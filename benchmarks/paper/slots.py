"""Figure 12 once more, on engines with as many slots as vLLM's default gave: how much depends on that choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.paper.curves import MIXED
from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.latency import MULTIPLE, ratios, reference
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS, VLLM_OPT
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import sustained

_NUM_SLOTS = 256
_RATES = (0.5, 1.5, 3.0)


class ManySlots:
    """Not a figure of the paper."""

    number = "12b"
    title = f"Program token latency by arrival rate, {_NUM_SLOTS} slots"
    claim = "nothing about this; its ratio of Agentix to vLLM-opt on Mixed is 4"

    def points(self, scale: float) -> Sequence[Point]:
        """Mixed with vLLM-opt and Agentix."""
        return [point for points in self._runs(scale).values() for point in points]

    def _runs(self, scale: float) -> dict[str, list[Point]]:
        return {
            system.label: [
                Point(
                    system=replace(system, engine=replace(system.engine, max_num_seqs=_NUM_SLOTS)),
                    workload="mixed",
                    rate_per_s=rate,
                    num_programs=scaled(round(rate * MIXED.window_s), scale),
                )
                for rate in _RATES
            ]
            for system in (VLLM_OPT, ATLAS)
        }

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency by rate, and calls in a step."""
        runs = self._runs(scale)
        return {
            "mean": {name: [(p.rate_per_s, outcomes[p].token_latency.mean) for p in points] for name, points in runs.items()},
            "p95": {name: [(p.rate_per_s, outcomes[p].token_latency.p95) for p in points] for name, points in runs.items()},
            "steady_batch": {name: [(p.rate_per_s, outcomes[p].steady_batch) for p in points] for name, points in runs.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """The ratio, and the latencies at the highest rate."""
        curves = numbers["mean"]
        latency = MULTIPLE * reference(curves)
        ours, theirs = (sustained(latency, curves[label]) for label in ("Agentix", "vLLM-opt"))
        rate, ours_last = curves["Agentix"][-1]
        return [
            Finding(
                text=f"With {_NUM_SLOTS} slots, at {latency:.3f} s/token: Agentix {ours} programs/s, vLLM-opt {theirs}: "
                f"{ratios(curves, MULTIPLE)['vLLM-opt']}. At {rate:g} programs/s {ours_last:.3f} and "
                f"{curves['vLLM-opt'][-1][1]:.3f} s/token, with {numbers['steady_batch']['vLLM-opt'][-1][1]:.0f} calls in a "
                "step of vLLM-opt."
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Mean and tail."""
        level = MULTIPLE * reference(numbers["mean"])
        return [
            Panel(
                title=f"mixed, {_NUM_SLOTS} slots", x="programs/s", y=f"{s} s/token", lines=numbers[s], level=level, log_y=True
            )
            for s in ("mean", "p95")
        ]
