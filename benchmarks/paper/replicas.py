"""Figures 14 and 15: balancers on several engines, and how capacity grows with their number."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import PLAS
from benchmarks.paper.sweep import Outcomes
from benchmarks.paper.throughput import Ratio, Sustained, ratio, sustained

_AFFINITY = "program_affinity"
_BALANCERS = {  # by the names that results have for them; the paper's has no skew guard
    "round_robin": "round_robin",
    "least_used": "least_used",
    _AFFINITY: "program_affinity+min_gain=inf",
}
_WORKLOAD = "chat"
_LATENCY = 0.02  # half as slow again as an engine that is not full
_NUM_ENGINES = 4
_NUMBERS_OF_ENGINES = (1, 2, 4, 8)
_WINDOW_S = 60.0
_RATES_PER_ENGINE = (2.0, 4.0, 6.0)


def _curve(balancer: str, num_engines: int, scale: float) -> list[Point]:
    """The runs of a balancer, in order of rates; rates grow with the number of engines."""
    return [
        Point(
            system=PLAS,
            workload=_WORKLOAD,
            rate_per_s=rate * num_engines,
            num_programs=scaled(round(rate * num_engines * _WINDOW_S), scale),
            num_engines=num_engines,
            balancer=_BALANCERS[balancer],
        )
        for rate in _RATES_PER_ENGINE
    ]


def _latencies(points: Sequence[Point], outcomes: Outcomes) -> list[tuple[float, float]]:
    """Mean token latency by rate."""
    return [(point.rate_per_s, outcomes[point].token_latency.mean or 0.0) for point in points]


class Balancers:
    """Figure 14."""

    number = "14"
    title = "Balancers"
    claim = "program affinity carries up to 1.4 times the load of round-robin and least-used"

    def points(self, scale: float) -> Sequence[Point]:
        """Every balancer on four engines."""
        return [point for balancer in _BALANCERS for point in _curve(balancer, _NUM_ENGINES, scale)]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency and prefix hit rate by rate."""
        runs = {balancer: _curve(balancer, _NUM_ENGINES, scale) for balancer in _BALANCERS}
        curves = {name: _latencies(points, outcomes) for name, points in runs.items()}
        return {
            "num_engines": _NUM_ENGINES,
            "latency": _LATENCY,
            "curves": curves,
            "hit_rate": {name: [(p.rate_per_s, outcomes[p].hit_rate) for p in points] for name, points in runs.items()},
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Affinity against the better of the others."""
        rates = {name: sustained(numbers["latency"], curve) for name, curve in numbers["curves"].items()}
        hits = {name: hit[-1][1] for name, hit in numbers["hit_rate"].items()}
        found = {name: ratio(rates[_AFFINITY], rates[name]) for name in ("round_robin", "least_used")}
        table = "; ".join(
            f"{name} {rate} programs/s (hits {hits[name]:.0%} at the highest rate)" for name, rate in rates.items()
        )
        return [
            Finding(
                text=f"Chat on {numbers['num_engines']} engines at {numbers['latency']} s/token: {table}. Affinity over "
                f"round-robin {found['round_robin']}, over least-used {found['least_used']}.",
                holds=max(found.values(), key=_value).is_at_least(1.3) and min(found.values(), key=_value).is_at_least(1.0),
                why="Affinity saves prefill of long contexts. Where that is a small part of the work, the imbalance it "
                "brings costs as much.",
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Latency and hits."""
        x = f"programs/s, {numbers['num_engines']} engines"
        return [
            Panel(title="chat", x=x, y="mean s/token", lines=numbers["curves"], level=numbers["latency"], log_y=True),
            Panel(title="prefix hits", x=x, y="share of prompt tokens", lines=numbers["hit_rate"]),
        ]


class Replicas:
    """Figure 15."""

    number = "15"
    title = "Capacity by number of engines"
    claim = "capacity is linear in the number of engines, up to 8"

    def points(self, scale: float) -> Sequence[Point]:
        """Program affinity on 1 to 8 engines."""
        return [point for num_engines in _NUMBERS_OF_ENGINES for point in _curve(_AFFINITY, num_engines, scale)]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean token latency by rate."""
        curves = {n: _latencies(_curve(_AFFINITY, n, scale), outcomes) for n in _NUMBERS_OF_ENGINES}
        return {"latency": _LATENCY, "curves": list(curves.items())}

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """Capacity per engine, against that of one."""
        rates = _capacities(numbers)
        relative = {n: rate.rate_per_s / n / rates[1].rate_per_s for n, rate in rates.items()}
        table = "; ".join(f"{n}: {rates[n]} ({relative[n]:.2f} of linear)" for n in rates)
        return [
            Finding(
                text=f"Chat, programs/s at {numbers['latency']} s/token by number of engines: {table}.",
                holds=all(relative[n] >= 0.85 and not rates[n].bound for n in rates),
                why="Each engine orders its own calls only, and the balancer counts calls, not work; also, the mean program "
                "of the larger draws is up to 5 % longer. We have not told these causes apart.",
            )
        ]

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """Capacity, and the line through that of one engine."""
        rates = [(n, rate.rate_per_s) for n, rate in _capacities(numbers).items()]
        linear = [(n, n * rates[0][1]) for n, _ in rates]
        return [Panel(title="chat", x="engines", y="programs/s", lines={"program_affinity": rates, "linear": linear})]


def _capacities(numbers: Numbers) -> dict[int, Sustained]:
    return {num_engines: sustained(numbers["latency"], curve) for num_engines, curve in numbers["curves"]}


def _value(each: Ratio) -> float:
    return each.value
