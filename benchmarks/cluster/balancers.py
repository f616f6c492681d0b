"""Figure 14: throughput at equal latency by balancer, chat (drawn and recorded) and tree search, on 4 and on 2 engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.cluster.part import GUARDED, LEAST_USED, PAPER, ROUND_ROBIN, SESSION_HASH, Numbers, table, verdict
from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS, PLAS, System, trace_path
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import ratio, sustained

_BALANCERS = (ROUND_ROBIN, LEAST_USED, SESSION_HASH, PAPER, GUARDED)
_NUMBERS_OF_ENGINES = (4, 2)
_AIM = 1.2  # over the better of round-robin and least-used, on chat


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Rates are programs per second and engine; balancers are compared at the mean token latencies `latencies`, s/token.

    Of recorded programs several draws are taken, since a few of them are a hundred times as long as most.
    """

    workload: str
    system: System
    rates: tuple[float, ...]
    window_s: float
    latencies: tuple[float, ...]
    num_seeds: int = 1

    def curve(self, balancer: str, num_engines: int, scale: float) -> list[list[Point]]:
        """By rate, a point for each draw."""
        return [
            [
                Point(
                    system=self.system,
                    workload=self.workload,
                    rate_per_s=rate * num_engines,
                    num_programs=scaled(round(rate * num_engines * self.window_s), scale),
                    num_engines=num_engines,
                    balancer=balancer,
                    seed=seed,
                )
                for seed in range(self.num_seeds)
            ]
            for rate in self.rates
        ]


_CHAT = ("chat", "sharegpt")
_LOADS = (
    _Load(workload="chat", system=PLAS, rates=(3.0, 4.0, 5.0), window_s=60.0, latencies=(0.018, 0.02, 0.022)),
    _Load(
        workload="sharegpt",
        system=PLAS,
        rates=(2.0, 3.0, 4.0, 5.0),
        window_s=60.0,
        latencies=(0.0215, 0.0225, 0.025),
        num_seeds=2,
    ),
    _Load(workload="tree", system=ATLAS, rates=(0.6, 0.9, 1.2, 1.5), window_s=30.0, latencies=(0.007, 0.008, 0.009)),
)


def _loads() -> list[_Load]:
    """Those whose programs are at hand."""
    return [load for load in _LOADS if load.workload != "sharegpt" or trace_path(load.workload) is not None]


class Balancers:
    """The part."""

    name = "balancers"

    def points(self, scale: float) -> Sequence[Point]:
        """Every balancer under every load on both numbers of engines."""
        return [
            point
            for load in _loads()
            for num_engines in _NUMBERS_OF_ENGINES
            for balancer in _BALANCERS
            for points in load.curve(balancer, num_engines, scale)
            for point in points
        ]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency by rate, and prefix hits at the highest rate."""

        def at(points: Sequence[Point]) -> tuple[float, float]:
            return points[0].rate_per_s, fmean(outcomes[point].token_latency.mean or 0.0 for point in points)

        return {
            "cases": [
                {
                    "workload": load.workload,
                    "num_engines": num_engines,
                    "latencies": load.latencies,
                    "curves": {balancer: list(map(at, runs)) for balancer, runs in curves.items()},
                    "hit_rate": {balancer: fmean(outcomes[p].hit_rate for p in runs[-1]) for balancer, runs in curves.items()},
                }
                for load in _loads()
                for num_engines in _NUMBERS_OF_ENGINES
                for curves in [{balancer: load.curve(balancer, num_engines, scale) for balancer in _BALANCERS}]
            ]
        }

    def text(self, numbers: Numbers) -> str:
        """A table for each load, and the aim on chat."""
        parts = [
            "## Balancers (the paper's figure 14)",
            "Programs per second at which the mean program-level token latency reaches the level given, read off its curve by "
            "rate; in brackets against the better of round-robin and least-used. The paper: up to 1.4. `sharegpt`: recorded "
            "lengths, if `AGENTIX_TRACE_DIR` holds them. All that a balancer can gain is the share of prompts that is missing "
            "in the cache under another one: with two engines half of the calls come home by chance, and where caches are "
            "large enough for copies of a context on every engine, most find it anyway.",
        ]
        for case in numbers["cases"]:
            parts += _case(case)
        return "\n\n".join(parts)


def _case(case: Numbers) -> list[str]:
    """The verdict on a load, if there is an aim, and its table."""
    cells: dict[str, list[str]] = {balancer: [] for balancer in case["curves"]}
    reached = []
    for latency in case["latencies"]:
        rates = {balancer: sustained(latency, curve) for balancer, curve in case["curves"].items()}
        best = max((rates[ROUND_ROBIN], rates[LEAST_USED]), key=lambda rate: rate.rate_per_s)
        for balancer, rate in rates.items():
            cells[balancer].append(f"{rate} ({ratio(rate, best)})")
        if ratio(rates[GUARDED], best).is_at_least(_AIM):
            reached.append(f"{latency:g}")
    title = f"**{case['workload'].capitalize()}, {case['num_engines']} engines.**"
    if case["workload"] in _CHAT:
        where = f"It is at {', '.join(reached)} s/token." if reached else "It is at none of these latencies."
        title += f" Our aim: the guarded balancer at {_AIM}× or more. {where} {verdict(bool(reached))}"
    rows = [[f"`{name}`", *cells[name], f"{case['hit_rate'][name]:.0%}"] for name in cells]
    heads = [f"programs/s at {latency:g} s/token" for latency in case["latencies"]]
    return [title, table(("balancer", *heads, "prefix hits at the highest rate"), rows)]
