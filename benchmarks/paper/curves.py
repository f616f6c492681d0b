"""The rate sweeps of the main comparison, shared by figures 4, 5, 6, 12, 13 and 17."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.paper.figure import Line, scaled
from benchmarks.paper.point import Outcome, Point
from benchmarks.paper.setup import MODEL, VLLM, systems_for
from benchmarks.paper.sweep import Outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A workload on a model at several rates, in programs per second; vLLM, without a prefix cache, needs lower ones."""

    workload: str
    num_programs: int
    vllm_rates: tuple[float, ...]
    rates: tuple[float, ...]
    model: str = MODEL

    @property
    def name(self) -> str:
        """How results name it."""
        return f"{self.workload}, {self.model}"

    def points(self, scale: float) -> dict[str, list[Point]]:
        """The runs by system, in order of rates."""
        return {
            system.label: [
                Point(
                    system=system,
                    workload=self.workload,
                    rate_per_s=rate,
                    num_programs=scaled(self.num_programs, scale),
                    model=self.model,
                )
                for rate in (self.vllm_rates if system is VLLM else self.rates)
            ]
            for system in systems_for(self.workload)
        }

    def at(self, rate_per_s: float, scale: float) -> dict[str, Point]:
        """The run of each system at one of the rates; systems that were not run at it are left out."""
        return {
            label: point
            for label, points in self.points(scale).items()
            for point in points
            if point.rate_per_s == rate_per_s
        }


CHAT = Sweep(workload="chat", num_programs=500, vllm_rates=(1,), rates=(1,))
REACT = Sweep(workload="react", num_programs=500, vllm_rates=(1,), rates=(1,))
TREE = Sweep(workload="tree", num_programs=100, vllm_rates=(1,), rates=(1,))
MIXED = Sweep(workload="mixed", num_programs=300, vllm_rates=(1,), rates=(1,))
MAIN = (CHAT, REACT, TREE, MIXED)


def all_points(sweeps: Sequence[Sweep], scale: float) -> list[Point]:
    """Every run of the sweeps."""
    return list(chain.from_iterable(chain.from_iterable(sweep.points(scale).values()) for sweep in sweeps))


def line(points: Sequence[Point], outcomes: Outcomes, value: Callable[[Outcome], float]) -> Line:
    """(rate, value) of the runs."""
    return [(point.rate_per_s, value(outcomes[point])) for point in points]
