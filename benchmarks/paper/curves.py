"""The rate sweeps of the main comparison, shared by figures 4, 5, 6, 12, 13 and 17."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import MODEL, VLLM, systems_for, trace_path

# Programs arrive for so long, in every run: a system that carries more load is not compared over a shorter time.
WINDOW_S = 240.0


def num_arrivals(rate_per_s: float, *, least: int = 0) -> int:
    """Programs that arrive in the window at that rate; at least so many, for runs far below saturation to mean anything."""
    return max(least, round(rate_per_s * WINDOW_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A workload on a model at several rates, in programs per second; vLLM, without a prefix cache, needs lower ones."""

    workload: str
    vllm_rates: tuple[float, ...]
    rates: tuple[float, ...]
    least_programs: int = 60
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
                    num_programs=scaled(num_arrivals(rate, least=self.least_programs), scale),
                    model=self.model,
                )
                for rate in (self.vllm_rates if system is VLLM else self.rates)
            ]
            for system in systems_for(self.workload)
        }


CHAT = Sweep(workload="chat", vllm_rates=(0.25, 0.5, 1.0, 2.0), rates=(1.0, 2.0, 3.0, 4.0))
REACT = Sweep(workload="react", vllm_rates=(0.1, 0.2, 0.4, 0.8), rates=(1.0, 2.0, 3.0, 4.0))
TREE = Sweep(workload="tree", vllm_rates=(0.04, 0.08, 0.16), rates=(0.15, 0.3, 0.6), least_programs=24)
MIXED = Sweep(workload="mixed", vllm_rates=(0.1, 0.2, 0.4), rates=(0.5, 1.0, 1.5, 2.0, 3.0))
MAIN = (CHAT, REACT, TREE, MIXED)
OVERLOADED_RATE = 1.5  # of Mixed, in the figures that look into one run

_LARGE_MODELS = (
    Sweep(workload="mixed", vllm_rates=(0.05, 0.1, 0.2), rates=(0.2, 0.5, 1.0), least_programs=30, model="llama-3.1-70b"),
    Sweep(workload="mixed", vllm_rates=(0.04, 0.08, 0.16), rates=(0.2, 0.4, 0.8), least_programs=30, model="falcon-180b"),
)
_RECORDED = (
    Sweep(workload="sharegpt", vllm_rates=(0.05, 0.1, 0.2), rates=(0.25, 0.5, 1.0)),
    Sweep(workload="bfcl", vllm_rates=(0.1, 0.2, 0.4), rates=(0.5, 1.0, 2.0)),
    Sweep(workload="tot", vllm_rates=(0.04, 0.08, 0.16), rates=(0.15, 0.3), least_programs=24),
)


def extra_sweeps() -> tuple[Sweep, ...]:
    """Larger models, and recorded programs if they are there."""
    return (*_LARGE_MODELS, *(sweep for sweep in _RECORDED if trace_path(sweep.workload) is not None))


def overloaded(scale: float) -> dict[str, Point]:
    """The run of each system but vLLM on Mixed at OVERLOADED_RATE."""
    return {
        label: point
        for label, points in MIXED.points(scale).items()
        for point in points
        if label != VLLM.label and point.rate_per_s == OVERLOADED_RATE
    }
