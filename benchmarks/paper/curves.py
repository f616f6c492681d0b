"""The rate sweeps of the main comparison, shared by figures 4, 5, 6, 12, 13 and 17."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import MODEL, VLLM, System, systems_for, trace_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A workload on a model at several rates, in programs per second, with arrivals for `window_s` in every run.

    The window is the same at every rate, so that a system which carries more load is not compared over a shorter time.
    Only far below saturation it is longer, for at least `least_programs`. vLLM, without a prefix cache, needs lower rates;
    `high_rates` are for Agentix alone.
    """

    workload: str
    vllm_rates: tuple[float, ...]
    rates: tuple[float, ...]
    high_rates: tuple[float, ...] = ()
    window_s: float = 240.0
    least_programs: int = 60
    model: str = MODEL

    @property
    def name(self) -> str:
        """How results name it."""
        return f"{self.workload}, {self.model}"

    def points(self, scale: float) -> dict[str, list[Point]]:
        """The runs by system, in order of rates."""
        return {
            system.label: [self._point(system, rate, scale) for rate in self._rates(system)]
            for system in systems_for(self.workload)
        }

    def _rates(self, system: System) -> tuple[float, ...]:
        if system is VLLM:
            return self.vllm_rates
        return self.rates + self.high_rates if system.label == "Agentix" else self.rates

    def _point(self, system: System, rate_per_s: float, scale: float) -> Point:
        num_programs = max(self.least_programs, round(rate_per_s * self.window_s))
        return Point(
            system=system,
            workload=self.workload,
            rate_per_s=rate_per_s,
            num_programs=scaled(num_programs, scale),
            model=self.model,
        )


CHAT = Sweep(workload="chat", vllm_rates=(0.25, 0.5, 1.0, 2.0), rates=(1.0, 2.0, 3.0, 4.0), high_rates=(6.0,))
REACT = Sweep(workload="react", vllm_rates=(0.1, 0.2, 0.4), rates=(1.0, 2.0, 3.0, 4.0))
TREE = Sweep(workload="tree", vllm_rates=(0.08, 0.16, 0.32, 0.5), rates=(0.2, 0.4, 0.8, 1.2), window_s=150.0, least_programs=24)
MIXED = Sweep(workload="mixed", vllm_rates=(0.1, 0.2, 0.4), rates=(0.5, 1.0, 1.5, 2.0), high_rates=(3.0,))
MAIN = (CHAT, REACT, TREE, MIXED)
OVERLOADED_RATE = 1.5  # of Mixed, in the figures that look into one run

_LARGE_MODELS = tuple(
    Sweep(
        workload="mixed",
        vllm_rates=(0.05, 0.1, 0.2),
        rates=(0.25, 0.5, 1.0, 2.0),
        window_s=120.0,
        least_programs=24,
        model=model,
    )
    for model in ("llama-3.1-70b", "falcon-180b")
)
_RECORDED = (
    Sweep(workload="sharegpt", vllm_rates=(0.1, 0.2, 0.4, 0.8), rates=(0.5, 1.0, 2.0, 3.0), window_s=120.0, least_programs=30),
    Sweep(workload="bfcl", vllm_rates=(0.05, 0.1, 0.2, 0.4), rates=(0.5, 1.0, 1.5, 2.0), window_s=120.0, least_programs=30),
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
