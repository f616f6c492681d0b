"""The simulated side: the same programs and arrivals on the engine that the card describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from agentix.core.balancers import make_balancer
from agentix.core.config import SchedulerConfig
from agentix.cost import CalibratedCard
from agentix.cost.fitted import COEFFICIENTS
from agentix.metrics import ProgramRecord, percentile
from agentix.metrics.definitions import jct_s, program_token_latency_s
from agentix.sim.config import EngineConfig
from agentix.sim.simulation import Simulation
from agentix.workload import load_programs
from benchmarks.fidelity.cases import Measured

WITHIN = {"mean": 0.10, "p95": 0.20}
"""How far off a prediction may be."""

STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "p95": lambda values: percentile(values, 95) or 0.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One number of one case: `of` is "mean" or "p95" of `metric`, in its unit.

    predicted  from the card alone
    at_speed   from the card when all its times are multiplied by `speed` of the run
    """

    metric: str
    of: str
    real: float
    predicted: float
    at_speed: float

    @property
    def error(self) -> float:
        """Predicted ÷ real - 1."""
        return self.predicted / self.real - 1

    @property
    def error_at_speed(self) -> float:
        """The same when the machine's speed is known."""
        return self.at_speed / self.real - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """One case.

    speed          how slow the machine was: measured time of the run's own steps ÷ the card's estimate of the same steps
    cached_tokens  prompt tokens that the simulated engine's prefix cache had
    """

    name: str
    speed: float
    compared: tuple[Compared, ...]
    cached_tokens: int


def predict(measured: Measured, programs: Path, card: CalibratedCard) -> Predicted:
    """Play the case's programs on the card's engine, as it is and at the run's speed, and compare."""
    measured_s = sum(duration_s for _, duration_s in measured.steps)
    speed = measured_s / sum(card.cost.step_s(step) for step, _ in measured.steps)
    predicted, cached_tokens = simulate(measured.case.policy, programs, card)
    at_speed, _ = simulate(measured.case.policy, programs, at(speed, card))
    real = {"jct_s": measured.jct_s, "program_token_latency_s": measured.token_latency_s}
    return Predicted(
        name=measured.case.name,
        speed=speed,
        compared=tuple(
            Compared(
                metric=metric,
                of=of,
                real=statistic(real[metric]),
                predicted=statistic(_values(predicted, metric)),
                at_speed=statistic(_values(at_speed, metric)),
            )
            for metric in real
            for of, statistic in STATISTICS.items()
        ),
        cached_tokens=cached_tokens,
    )


def simulate(policy: str, programs: Path, card: CalibratedCard) -> tuple[list[ProgramRecord], int]:
    """The records of the programs at their arrivals, and the prompt tokens that the prefix cache had."""
    engine = EngineConfig(
        scheduler=SchedulerConfig(policy=policy),
        max_num_seqs=card.engine.max_num_seqs,
        max_batch_tokens=card.engine.max_batch_tokens,
        num_blocks=card.engine.num_blocks,
        block_size=card.engine.block_size,
        prefix_cache=card.engine.prefix_cache,
        preemption="none",  # the plug-in orders calls that wait
    )
    loaded = load_programs(programs)
    simulation = Simulation(
        loaded,
        [program.arrival_s or 0.0 for program in loaded],
        engine=engine,
        cost=card.cost,
        balancer=make_balancer("round_robin"),
        call_overhead_s=card.call_overhead_s,
    )
    return simulation.run(), sum(engine.counts.cached_tokens for engine in simulation.engines.values())


def at(speed: float, card: CalibratedCard) -> CalibratedCard:
    """The card of a machine on which everything takes `speed` times as long."""
    cost = replace(card.cost, **{name: speed * getattr(card.cost, name) for name in COEFFICIENTS})
    return replace(card, cost=cost, call_overhead_s=speed * card.call_overhead_s)


def _values(records: Sequence[ProgramRecord], metric: str) -> list[float]:
    function = {"jct_s": jct_s, "program_token_latency_s": program_token_latency_s}[metric]
    return [value for record in records if (value := function(record)) is not None]
