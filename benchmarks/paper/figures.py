"""The figures by number. A new one is a class in a small file, and a line here."""

from __future__ import annotations

from agentix.core.errors import unknown_name
from benchmarks.paper.breakdown import Breakdown, Ratios
from benchmarks.paper.figure import Figure
from benchmarks.paper.identical import Identical
from benchmarks.paper.latency import MeanLatency, TailLatency
from benchmarks.paper.offline import Offline
from benchmarks.paper.queueing import Concurrency, Waiting
from benchmarks.paper.replicas import Balancers, Replicas
from benchmarks.paper.sharing import Sharing
from benchmarks.paper.slots import ManySlots
from benchmarks.paper.swaps import Swaps

_ALL: tuple[Figure, ...] = (
    Concurrency(),
    Waiting(),
    Ratios(),
    Sharing(),
    MeanLatency(),
    ManySlots(),
    TailLatency(),
    Balancers(),
    Replicas(),
    Offline(),
    Breakdown(),
    Identical(),
    Swaps(),
)
FIGURES = {figure.number: figure for figure in _ALL}


def find_figures(numbers: list[str]) -> list[Figure]:
    """The figures of these numbers, all if there are none. Raises ConfigError, which lists them."""
    for number in numbers:
        if number not in FIGURES:
            raise unknown_name("figure", number, FIGURES)
    return [FIGURES[number] for number in numbers or FIGURES]
