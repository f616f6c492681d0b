"""Figure 19: how often KV is swapped, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.paper.curves import OVERLOADED_RATE
from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import AGENTIX_ENGINE, NUM_SPARE_CALLS, NUM_STEPS, System
from benchmarks.paper.sweep import Outcomes

_SINGLE = replace(AGENTIX_ENGINE, steps_per_schedule=1, num_spare_calls=0)
_MULTI = replace(AGENTIX_ENGINE, num_spare_calls=0)
_ENGINES = {
    "per block": replace(_SINGLE, bulk_swap=False),
    "bulk": _SINGLE,
    f"bulk, {NUM_STEPS} steps": _MULTI,
    f"bulk, {NUM_STEPS} steps, {NUM_SPARE_CALLS} spares": AGENTIX_ENGINE,
}


_NUM_PROGRAMS = 180


class Swaps:
    """Figure 19."""

    number = "19"
    title = "Swaps: how many, how long"
    claim = "with multi-step scheduling up to 18 times fewer swaps; one bulk copy for all blocks takes 3-7 times less time"

    def points(self, scale: float) -> Sequence[Point]:
        """ATLAS on Mixed, overloaded, in each engine."""
        return list(self._runs(scale).values())

    def _runs(self, scale: float) -> dict[str, Point]:
        return {
            label: Point(
                system=System.of("Agentix" if engine is AGENTIX_ENGINE else label, engine, "atlas"),
                workload="mixed",
                rate_per_s=OVERLOADED_RATE,
                num_programs=scaled(_NUM_PROGRAMS, scale),
            )
            for label, engine in _ENGINES.items()
        }

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Swaps and their time."""
        counts = {label: outcomes[point].counts for label, point in self._runs(scale).items()}
        return {
            "rate_per_s": OVERLOADED_RATE,
            "num_swaps": {label: each.num_swaps for label, each in counts.items()},
            "swap_s": {label: each.swap_s for label, each in counts.items()},
            "num_preemptions": {label: each.num_preemptions for label, each in counts.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Counts, times."""
        swaps, times = numbers["num_swaps"], numbers["swap_s"]
        per_block, bulk, *_, best = swaps
        fewer = swaps[bulk] / max(1, swaps[best])
        faster = (times[per_block] / max(1, swaps[per_block])) / (times[bulk] / max(1, swaps[bulk])) if times[bulk] else 0.0
        return [
            Finding(
                text=f"On Mixed at {numbers['rate_per_s']:g} programs/s: "
                + "; ".join(f"{label} {swaps[label]} swaps, {times[label]:.2f} s" for label in swaps)
                + f". {fewer:.1f} times fewer swaps, and {faster:.1f} times less time per swap in bulk.",
                holds=fewer >= 2 and 3 <= faster <= 7,
                why="The number of swaps depends on how many calls leave the batch for a better one, and that on quanta far "
                "longer than a step.",
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Counts, times."""
        labels = list(numbers["num_swaps"])
        groups = [label.replace(", ", "\n") for label in labels]
        return [
            Panel(title="swaps", x="", y="number", bars={"swaps": [numbers["num_swaps"][n] for n in labels]}, groups=groups),
            Panel(title="time", x="", y="s", bars={"device waits": [numbers["swap_s"][n] for n in labels]}, groups=groups),
        ]
