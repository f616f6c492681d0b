"""The simulated side: the same programs and arrivals on the engine that the card describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from agentix.calibrate.learn import pace, slowness
from agentix.core.balancers import make_balancer
from agentix.core.config import SchedulerConfig
from agentix.cost import CalibratedCard, Step, StepCostModel
from agentix.metrics import ProgramRecord, percentile
from agentix.metrics.definitions import jct_s, program_token_latency_s
from agentix.sim.config import engine_like
from agentix.sim.simulation import Simulation
from agentix.workload import load_programs
from benchmarks.fidelity.cases import Measured

WITHIN = {"mean": 0.10, "p95": 0.20}
"""How far off a prediction may be."""

STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "p95": lambda values: percentile(values, 95) or 0.0,
}


_WINDOW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One number of one case: `of` is "mean" or "p95" of `metric`, in its unit.

    predicted  from the card alone
    paced      from the card and how slow the machine was in each window of the run, see `agentix.calibrate.learn.pace`
    """

    metric: str
    of: str
    real: float
    predicted: float
    paced: float

    @property
    def error(self) -> float:
        """Predicted ÷ real - 1."""
        return self.predicted / self.real - 1

    @property
    def paced_error(self) -> float:
        """The same when the machine's pace is known."""
        return self.paced / self.real - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """One case. `slowness` is the whole run's; `cached_tokens` are prompt tokens that the simulated prefix cache had."""

    name: str
    started_at: str
    slowness: float
    compared: tuple[Compared, ...]
    cached_tokens: int


class Paced:
    """A cost model on a machine whose speed changes: the card's estimate × how slow the machine was at that moment.

    `simulation` owns the clock; until it is set, as while it is made, the run has not begun.
    """

    simulation: Simulation | None = None

    def __init__(self, cost: StepCostModel, slowness: Sequence[float]) -> None:
        self._cost = cost
        self._slowness = slowness

    def step_s(self, step: Step, /) -> float:
        """Seconds that the step takes if it begins now."""
        now = self.simulation.now if self.simulation is not None else 0.0
        window = min(int(now // _WINDOW_S), len(self._slowness) - 1)
        return self._slowness[window] * self._cost.step_s(step)


def predict(measured: Measured, programs: Path, card: CalibratedCard) -> Predicted:
    """Play the case's programs on the card's engine, at the card's pace and at the run's, and compare."""
    predicted, cached_tokens = simulate(measured.case.policy, programs, card)
    windows = pace(card.cost, measured.steps, window_s=_WINDOW_S)
    paced, _ = simulate(measured.case.policy, programs, card, Paced(card.cost, windows))
    real = {"jct_s": measured.jct_s, "program_token_latency_s": measured.token_latency_s}
    return Predicted(
        name=measured.case.name,
        started_at=measured.started_at,
        slowness=slowness(card.cost, ((step, duration_s) for step, _, duration_s in measured.steps)),
        compared=tuple(
            Compared(
                metric=metric,
                of=of,
                real=statistic(real[metric]),
                predicted=statistic(_values(predicted, metric)),
                paced=statistic(_values(paced, metric)),
            )
            for metric in real
            for of, statistic in STATISTICS.items()
        ),
        cached_tokens=cached_tokens,
    )


def simulate(policy: str, programs: Path, card: CalibratedCard, paced: Paced | None = None) -> tuple[list[ProgramRecord], int]:
    """The records of the programs at their arrivals, and the prompt tokens that the prefix cache had."""
    engine = replace(
        engine_like(card.engine),
        scheduler=SchedulerConfig(policy=policy),
        preemption="none",  # the plug-in orders calls that wait
        max_bulk_steps=1,  # a step's time may depend on when it begins
    )
    loaded = load_programs(programs)
    simulation = Simulation(
        loaded,
        [program.arrival_s or 0.0 for program in loaded],
        engine=engine,
        cost=paced or card.cost,
        balancer=make_balancer("round_robin"),
        call_overhead_s=card.call_overhead_s,
    )
    if paced is not None:
        paced.simulation = simulation
    return simulation.run(), sum(engine.counts.cached_tokens for engine in simulation.engines.values())


def _values(records: Sequence[ProgramRecord], metric: str) -> list[float]:
    function = {"jct_s": jct_s, "program_token_latency_s": program_token_latency_s}[metric]
    return [value for record in records if (value := function(record)) is not None]
