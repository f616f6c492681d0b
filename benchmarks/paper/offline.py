"""Figure 16: all programs at once, until the last is done."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentix.cost import model_card
from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS, MLFQ, MODEL, VLLM_OPT
from benchmarks.paper.sweep import Outcomes

_SIZES = (30, 60, 120)
_GB = 1e9


class Offline:
    """Figure 16."""

    number = "16"
    title = "Makespan of a batch of programs"
    claim = "Agentix shortens the makespan by 10-40 %; MLFQ runs out of memory at 4000 programs"

    def points(self, scale: float) -> Sequence[Point]:
        """Every system but vLLM at every size."""
        return [point for points in self._runs(scale).values() for point in points]

    def _runs(self, scale: float) -> dict[str, list[Point]]:
        return {
            system.label: [
                Point(system=system, workload="mixed", rate_per_s=math.inf, num_programs=scaled(size, scale)) for size in _SIZES
            ]
            for system in (VLLM_OPT, MLFQ, ATLAS)
        }

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Makespan, and the KV that swapped-out calls kept on the host, at its peak."""
        bytes_per_token = model_card(MODEL).kv_bytes_per_token
        runs = self._runs(scale)
        return {
            "makespan_s": {name: [(p.num_programs, outcomes[p].makespan_s) for p in points] for name, points in runs.items()},
            "host_gb": {
                name: [(p.num_programs, outcomes[p].peak_host_tokens * bytes_per_token / _GB) for p in points]
                for name, points in runs.items()
            },
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Agentix against the others at the largest size; memory by size."""
        last = {name: curve[-1][1] for name, curve in numbers["makespan_s"].items()}
        size = numbers["makespan_s"]["Agentix"][-1][0]
        saved = {name: 1 - last["Agentix"] / last[name] for name in ("vLLM-opt", "MLFQ")}
        host = numbers["host_gb"]
        mlfq, ours = host["MLFQ"], host["Agentix"]
        return [
            Finding(
                text=f"{size} programs of Mixed take {last['vLLM-opt']:.0f} s with vLLM-opt, {last['MLFQ']:.0f} s with MLFQ, "
                f"{last['Agentix']:.0f} s with Agentix: {-saved['vLLM-opt']:+.0%} and {-saved['MLFQ']:+.0%}.",
                holds=min(saved.values()) >= 0.1,
                why="Least attained service serves long programs last, and what is left at the end is a few of them that do "
                "not fill the slots; the work itself is the same, since the prefix cache is large enough for every order here.",
            ),
            Finding(
                text=f"KV on the host at its peak, from {mlfq[0][0]} to {size} programs: MLFQ {mlfq[0][1]:.1f} to "
                f"{mlfq[-1][1]:.1f} GB, Agentix {ours[0][1]:.1f} to {ours[-1][1]:.1f} GB. The model has no bound "
                "on host memory, and 4000 programs were not played.",
            ),
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Makespan, memory."""
        return [
            Panel(title="Mixed, all at once", x="programs", y="makespan, s", lines=numbers["makespan_s"]),
            Panel(title="swapped-out KV", x="programs", y="GB at the peak", lines=numbers["host_gb"]),
        ]
