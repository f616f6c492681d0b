"""Figure 15 and beyond: capacity by number of engines, to 64."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.cluster.part import GUARDED, PAPER, Numbers, table, verdict
from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import PLAS, make_programs
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import Sustained, sustained

# Few engines see few programs in the window, whose lengths vary a lot: several draws, so that each number of engines up to 8
# is judged by as many programs.
_NUM_SEEDS = {1: 8, 2: 4, 4: 2, 8: 1, 16: 1, 32: 1, 64: 1}
_BALANCERS = {PAPER: (1, 2, 4, 8), GUARDED: tuple(_NUM_SEEDS)}
_RATES_PER_ENGINE = (5.5, 7.5)
_LATENCY = 0.0165
_WINDOW_S = 20.0
_AIM = 0.95


def _points(balancer: str, num_engines: int, rate: float, scale: float) -> list[Point]:
    return [
        Point(
            system=PLAS,
            workload="chat",
            rate_per_s=rate * num_engines,
            num_programs=scaled(round(rate * num_engines * _WINDOW_S), scale),
            num_engines=num_engines,
            balancer=balancer,
            seed=seed,
        )
        for seed in range(_NUM_SEEDS[num_engines])
    ]


class Replicas:
    """The part."""

    name = "replicas"

    def points(self, scale: float) -> Sequence[Point]:
        """All rates on all numbers of engines."""
        return [
            point
            for balancer, sizes in _BALANCERS.items()
            for num_engines in sizes
            for rate in _RATES_PER_ENGINE
            for point in _points(balancer, num_engines, rate, scale)
        ]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency over the draws, by answer tokens that arrive per second and engine."""

        def at(balancer: str, n: int, rate: float) -> tuple[float, float]:
            points = _points(balancer, n, rate, scale)
            latency = fmean(outcomes[point].token_latency.mean or 0.0 for point in points)
            return rate * _mean_program_tokens(points), latency

        return {
            "latency": _LATENCY,
            "window_s": _WINDOW_S,
            "curves": {
                balancer: [(n, [at(balancer, n, rate) for rate in _RATES_PER_ENGINE]) for n in sizes]
                for balancer, sizes in _BALANCERS.items()
            },
        }

    def text(self, numbers: Numbers) -> str:
        """Capacity and efficiency by number of engines."""
        rates = {balancer: _capacities(numbers["latency"], curves) for balancer, curves in numbers["curves"].items()}
        one = rates[GUARDED][1].rate_per_s
        relative = {n: rate.rate_per_s / one for n, rate in rates[GUARDED].items()}
        holds = all(value >= _AIM for value in relative.values()) and not any(r.bound == "≤" for r in rates[GUARDED].values())
        rows = [[str(n), *(cell for by_size in rates.values() for cell in _cells(by_size.get(n), one))] for n in rates[GUARDED]]
        return "\n\n".join(
            [
                "## Capacity by number of engines (the paper's figure 15, and beyond)",
                f"Chat, arrivals for {numbers['window_s']:.0f} s; answer tokens per second and engine at "
                f"{numbers['latency']:g} s/token, and the share of what one engine carries. The paper: linear up to 8. "
                f"Our aim: at least {_AIM} up to 64 with the skew guard. {verdict(holds)}",
                table(("engines", *(f"`{b}`{what}" for b in rates for what in (", each", ", efficiency"))), rows),
            ]
        )


def _mean_program_tokens(points: Sequence[Point]) -> float:
    """Draws differ by some percent in the length of their mean program, so that rates of programs do not compare."""
    return fmean(
        sum(call.output_tokens for call in program.calls)
        for point in points
        for program in make_programs(point.workload, num_programs=point.num_programs, seed=point.seed)
    )


def _capacities(latency: float, curves: Sequence[tuple[int, Sequence[tuple[float, float]]]]) -> dict[int, Sustained]:
    return {n: sustained(latency, curve) for n, curve in curves}


def _cells(rate: Sustained | None, one: float) -> tuple[str, str]:
    return ("–", "–") if rate is None else (f"{rate.bound}{rate.rate_per_s:,.0f}", f"{rate.bound}{rate.rate_per_s / one:.2f}")
