"""Figure 18: policies alone, on an engine whose steps all take the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.point import IDENTICAL_STEP_S, IDENTICAL_STEPS, Point
from benchmarks.paper.setup import AGENTIX_ENGINE, System
from benchmarks.paper.sweep import Outcomes

_POLICIES = {"FCFS": "fcfs", "round-robin": "round_robin", "MLFQ": "mlfq", "PLAS": "plas", "ATLAS": "atlas", "SRPT": "srpt"}
_OURS = ("PLAS", "ATLAS")
_ENGINE = replace(AGENTIX_ENGINE, preemption="park", steps_per_schedule=1, num_spare_calls=0, scheduling_s=0.0)
_RATES = (0.6, 1.2)
_WINDOW_S = 120.0


class Identical:
    """Figure 18."""

    number = "18"
    title = "Policies on identical steps"
    claim = "PLAS and ATLAS beat FCFS, round-robin and MLFQ; a gap to clairvoyant SRPT remains"

    def points(self, scale: float) -> Sequence[Point]:
        """Every policy at every rate."""
        return [point for points in self._runs(scale).values() for point in points]

    def _runs(self, scale: float) -> dict[str, list[Point]]:
        return {
            label: [
                Point(
                    system=System.of(label, _ENGINE, policy),
                    workload="mixed",
                    rate_per_s=rate,
                    num_programs=scaled(round(rate * _WINDOW_S), scale),
                    model=IDENTICAL_STEPS,
                )
                for rate in _RATES
            ]
            for label, policy in _POLICIES.items()
        }

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency and mean response time by rate."""
        runs = self._runs(scale)
        return {
            "step_s": IDENTICAL_STEP_S,
            "token_latency": {
                name: [(p.rate_per_s, outcomes[p].token_latency.mean or 0.0) for p in points] for name, points in runs.items()
            },
            "jct_s": {name: [(p.rate_per_s, outcomes[p].jct.mean or 0.0) for p in points] for name, points in runs.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """At the highest rate."""
        latency = {name: curve[-1][1] for name, curve in numbers["token_latency"].items()}
        jct = {name: curve[-1][1] for name, curve in numbers["jct_s"].items()}
        rate = numbers["jct_s"]["FCFS"][-1][0]
        others = min(value for name, value in latency.items() if name not in (*_OURS, "SRPT"))
        ours = max(latency[name] for name in _OURS)
        return [
            Finding(
                text=f"Mixed at {rate:g} programs/s, s/token: " + "; ".join(f"{n} {v:.4f}" for n, v in latency.items()) + ".",
                holds=ours < others,
                why="See the curves.",
            ),
            Finding(
                text="Mean response time, s: " + "; ".join(f"{n} {v:.1f}" for n, v in jct.items()) + ".",
                holds=jct["SRPT"] < min(jct[name] for name in _OURS),
                why="SRPT is told a program's work on an idle engine with a cold cache, and takes the sum over parallel calls.",
            ),
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Token latency, response time."""
        return [
            Panel(title="Mixed, identical steps", x="programs/s", y="mean s/token", lines=numbers["token_latency"], log_y=True),
            Panel(title="response time", x="programs/s", y="mean JCT, s", lines=numbers["jct_s"]),
        ]
