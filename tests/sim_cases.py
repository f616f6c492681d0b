"""Random small simulations, and what is seen of them: programs, arrivals, engines that run short, engines that fail.

Times, gaps and the costs of steps are multiples of a power of two, so that sums are exact and many things happen at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from agentix.core import POLICIES, SchedulerConfig
from agentix.core.balancers import BALANCERS, make_balancer
from agentix.core.events import CallArrived, CallMoved, Event, Placed, ProgramEnded, StepCompleted
from agentix.cost.step import Step, StepCostModel, UnitCost
from agentix.metrics import ProgramRecord
from agentix.sim.config import PREEMPTIONS, EngineConfig
from agentix.sim.engine import ModelledEngine
from agentix.sim.events import ControlEvent, EngineFails, EngineJoins
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program

BLOCK_SIZE = 4
Observe = Callable[[Simulation, Event, Sequence[Any]], None]


class UnevenCost:
    """Steps of different lengths, all of them multiples of 1/64 s."""

    def step_s(self, step: Step, /) -> float:
        """Half a second, and something for everything that is in it."""
        return (
            0.5
            + (16 * step.prefill_tokens + step.prefill_pairs // 8 + 8 * step.num_decodes) / 64
            + step.decode_context_tokens // 32 / 8
        )


class RoundingCost:
    """Steps whose lengths are no sums of powers of two, as real ones are not."""

    def step_s(self, step: Step, /) -> float:
        """Some 0.1 s."""
        return 0.1 + 0.0037 * step.prefill_tokens + 0.0111 * step.num_decodes + 0.00013 * step.decode_context_tokens


def swap_cost(*, num_tokens: int, num_blocks: int, bulk: bool) -> float:
    """A second per block, or half a second for all of them; every block is moved whole."""
    assert num_tokens == num_blocks * BLOCK_SIZE
    return 0.5 if bulk else float(num_blocks)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The arguments of one simulation."""

    programs: tuple[Program, ...]
    arrivals_s: tuple[float, ...]
    engine: EngineConfig
    cost: StepCostModel = field(default_factory=UnitCost)
    balancer: str = "least_used"
    num_engines: int = 1
    control: tuple[tuple[float, ControlEvent], ...] = ()

    def with_engine(self, **changes: Any) -> Case:
        """The same on engines that differ."""
        return replace(self, engine=replace(self.engine, **changes))

    def simulation(self, observe: Observe | None = None) -> Simulation:
        """The run, not yet played; `observe` is told every event of every engine once it has been applied."""
        simulation: Simulation = Simulation(
            self.programs,
            self.arrivals_s,
            engine=self.engine,
            cost=self.cost,
            balancer=make_balancer(self.balancer),
            num_engines=self.num_engines,
            swap_cost=swap_cost,
            control=self.control,
            on_decision=None if observe is None else lambda event, decisions: observe(simulation, event, decisions),
        )
        return simulation


@dataclass
class Outcome:
    """A simulation that has been played. `log` has the events of all engines, with the decisions on each."""

    simulation: Simulation
    records: list[ProgramRecord]
    log: list[tuple[Event, list[Placed]]]

    @property
    def engines(self) -> list[ModelledEngine]:
        """Those that are there and those that have failed."""
        return [*self.simulation.engines.values(), *self.simulation.failed_engines]

    @property
    def counts(self) -> dict[str, dict[str, float]]:
        """What every engine has counted."""
        return {engine.engine_id: asdict(engine.counts) for engine in self.engines}


def play(case: Case, observe: Observe | None = None) -> Outcome:
    """Play it to its end."""
    log: list[tuple[Event, list[Placed]]] = []

    def note(simulation: Simulation, event: Event, decisions: Sequence[Any]) -> None:
        log.append((event, list(decisions)))
        if observe is not None:
            observe(simulation, event, decisions)

    simulation = case.simulation(note)
    return Outcome(simulation, simulation.run(), log)


class Whereabouts:
    """Which engine an event of a log is about. A move is told twice: to the engine that the call leaves, then to the other."""

    def __init__(self) -> None:
        self._engine_ids: dict[str, str] = {}
        self._moving: set[str] = set()

    def engine_of(self, event: Event) -> str:
        """To be asked once for each event, in order."""
        match event:
            case CallArrived():
                self._engine_ids[event.call_id] = event.engine_id
            case CallMoved() if event.call_id in self._moving:
                self._moving.remove(event.call_id)
                self._engine_ids[event.call_id] = event.engine_id
            case CallMoved():
                self._moving.add(event.call_id)
            case StepCompleted():
                return self._engine_ids[event.call_ids[0]]
            case ProgramEnded():
                return ""  # no engine's own
        return self._engine_ids[event.call_id]  # type: ignore[attr-defined]


# --- strategies


@st.composite
def _programs(draw: st.DrawFn, index: int) -> Program:
    """A DAG of up to five calls. Prompts begin like their first parent's, or with a system prompt that others share, or not."""
    calls: list[Call] = []
    for n in range(draw(st.integers(1, 5))):
        parents = tuple(c.call_id for c in calls[-3:] if draw(st.integers(0, 2)))
        prompt_tokens = draw(st.integers(1, 40))
        shared = min(draw(st.sampled_from((0, 4, 9, 32))), prompt_tokens)
        parts = (("system", shared), (f"own {index}/{n}", prompt_tokens - shared)) if draw(st.booleans()) else None
        calls.append(
            Call(
                call_id=f"c{n}",
                parents=parents,
                prompt_tokens=prompt_tokens,
                output_tokens=draw(st.integers(0, 12)),
                tool_gap_s=draw(st.sampled_from((None, 0.0, 0.5, 2.0, 7.0))),
                prompt_parts=parts,
                reused_tokens=shared if parts is None else None,
            )
        )
    return Program(program_id=f"p{index}", workload="test", calls=tuple(calls))


@st.composite
def _controls(draw: st.DrawFn, num_engines: int) -> tuple[tuple[float, ControlEvent], ...]:
    """Some engines fail, some join, and one that joins stays."""
    moments = st.sampled_from((0.0, 1.0, 2.5, 4.0, 6.0, 9.0, 15.0))
    control: list[tuple[float, ControlEvent]] = [
        (draw(moments), EngineFails(f"engine-{i}")) for i in range(num_engines) if draw(st.booleans())
    ]
    is_brief = draw(st.booleans())
    if control and is_brief:
        at_s = draw(moments)
        control += [(at_s, EngineJoins("brief")), (at_s + draw(moments), EngineFails("brief"))]
    if control:
        control.append((draw(moments), EngineJoins("late")))
    return tuple(control)


@st.composite
def cases(
    draw: st.DrawFn, *, policies: Sequence[str] = (), costs: Sequence[StepCostModel] = (UnitCost(), UnevenCost())
) -> Case:
    """Simulations that run short of slots, blocks and tokens, with every option of an engine."""
    programs = tuple(draw(_programs(i)) for i in range(draw(st.integers(1, 5))))
    largest = max(-(-(c.prompt_tokens + c.max_tokens) // BLOCK_SIZE) for p in programs for c in p.calls)
    num_engines = draw(st.integers(1, 3))
    scheduler = SchedulerConfig(
        policy=draw(st.sampled_from(policies or POLICIES.names)),
        quanta_s=draw(st.sampled_from(((1.0, 2.0, 4.0, 8.0), (3.0,), (0.5, 0.5)))),
        starvation_ratio=draw(st.sampled_from((None, 0.5, 1.0, 3.0))),
        running_first=draw(st.booleans()),
        weigh_evictions=draw(st.booleans()),
    )
    engine = EngineConfig(
        scheduler=scheduler,
        max_num_seqs=draw(st.integers(1, 4)),
        max_batch_tokens=draw(st.sampled_from((1, 5, 16, 64))),
        num_blocks=largest + draw(st.sampled_from((0, 1, 3, 10, 100))),
        block_size=BLOCK_SIZE,
        prefix_cache=draw(st.booleans()),
        chunked_prefill=draw(st.booleans()),
        preemption=draw(st.sampled_from(PREEMPTIONS)),
        bulk_swap=draw(st.booleans()),
        steps_per_schedule=draw(st.integers(1, 4)),
        num_spare_calls=draw(st.integers(0, 2)),
        scheduling_s=draw(st.sampled_from((0.0, 0.0, 0.25, 2.0))),
    )
    return Case(
        programs=programs,
        arrivals_s=tuple(draw(st.sampled_from((0.0, 0.0, 0.5, 1.0, 3.0, 7.5, 20.0))) for _ in programs),
        engine=engine,
        cost=draw(st.sampled_from(costs)),
        balancer=draw(st.sampled_from(BALANCERS.names)),
        num_engines=num_engines,
        control=draw(_controls(num_engines)) if draw(st.integers(0, 3)) == 0 else (),
    )
