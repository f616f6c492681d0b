"""Figure 14: throughput at equal latency by balancer, chat and tree search, on 4 and on 2 engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cluster.part import GUARDED, LEAST_USED, PAPER, ROUND_ROBIN, SESSION_HASH, Numbers, table, verdict
from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS, PLAS, System
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import ratio, sustained

_BALANCERS = (ROUND_ROBIN, LEAST_USED, SESSION_HASH, PAPER, GUARDED)
_NUMBERS_OF_ENGINES = (4, 2)
_AIM = 1.2  # over the better of round-robin and least-used, on chat


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Rates are programs per second and engine; balancers are compared at the mean token latency `latency`, s/token."""

    workload: str
    system: System
    rates: tuple[float, ...]
    window_s: float
    latency: float

    def curve(self, balancer: str, num_engines: int, scale: float) -> list[Point]:
        return [
            Point(
                system=self.system,
                workload=self.workload,
                rate_per_s=rate * num_engines,
                num_programs=scaled(round(rate * num_engines * self.window_s), scale),
                num_engines=num_engines,
                balancer=balancer,
            )
            for rate in self.rates
        ]


_LOADS = (
    _Load(workload="chat", system=PLAS, rates=(3.0, 4.0, 5.0), window_s=60.0, latency=0.02),
    _Load(workload="tree", system=ATLAS, rates=(0.4, 0.8), window_s=20.0, latency=0.006),
)


class Balancers:
    """The part."""

    name = "balancers"

    def points(self, scale: float) -> Sequence[Point]:
        """Every balancer under every load on both numbers of engines."""
        return [
            point
            for load in _LOADS
            for num_engines in _NUMBERS_OF_ENGINES
            for balancer in _BALANCERS
            for point in load.curve(balancer, num_engines, scale)
        ]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency by rate, and prefix hits at the highest rate."""
        return {
            "cases": [
                {
                    "workload": load.workload,
                    "num_engines": num_engines,
                    "latency": load.latency,
                    "curves": {
                        balancer: [(p.rate_per_s, outcomes[p].token_latency.mean or 0.0) for p in points]
                        for balancer, points in runs.items()
                    },
                    "hit_rate": {balancer: outcomes[points[-1]].hit_rate for balancer, points in runs.items()},
                }
                for load in _LOADS
                for num_engines in _NUMBERS_OF_ENGINES
                for runs in [{balancer: load.curve(balancer, num_engines, scale) for balancer in _BALANCERS}]
            ]
        }

    def text(self, numbers: Numbers) -> str:
        """A table for each load, and the aim on chat."""
        parts = [
            "## Balancers (the paper's figure 14)",
            "Programs per second at which the mean program-level token latency reaches the level given, read off its curve by "
            "rate; *over the best* is against the better of round-robin and least-used. The paper: up to 1.4.",
        ]
        for case in numbers["cases"]:
            rates = {balancer: sustained(case["latency"], curve) for balancer, curve in case["curves"].items()}
            best = max((rates[ROUND_ROBIN], rates[LEAST_USED]), key=lambda rate: rate.rate_per_s)
            over = {balancer: ratio(rate, best) for balancer, rate in rates.items()}
            title = f"**{case['workload'].capitalize()}, {case['num_engines']} engines, {case['latency']:g} s/token.**"
            if case["workload"] == "chat":
                title += f" Our aim: the guarded balancer at {_AIM} or more. {verdict(over[GUARDED].is_at_least(_AIM))}"
            rows = [
                [f"`{balancer}`", str(rates[balancer]), str(over[balancer]), f"{case['hit_rate'][balancer]:.0%}"]
                for balancer in rates
            ]
            parts += [title, table(("balancer", "programs/s", "over the best", "prefix hits at the highest rate"), rows)]
        return "\n\n".join(parts)
