"""The modelled engine and whole simulated runs, on steps of one second and on small KV caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentix.core import ConfigError, ProcessTable, Scheduler, SchedulerConfig
from agentix.core.balancers import EngineView, LoadBalancer, Route, make_balancer
from agentix.core.events import Event, Placed, StepCompleted, log_line
from agentix.core.program import ProgramRow
from agentix.cost.step import Step, UnitCost
from agentix.metrics import ProgramRecord, Status
from agentix.sim.config import CapacityError, EngineConfig
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program
from step_engine import Work, chain
from step_engine import run as run_by_hand

QUANTA_S = (1.0, 2.0, 4.0, 8.0)
FIGURE_2 = {"A": chain("A", 4, 3, 1, 1), "B": chain("B", 3, 3, 4), "C": chain("C", 1, 2), "D": chain("D", 4)}


def programs_of(plan: Mapping[str, Mapping[str, Work]], prompt_tokens: int = 1) -> list[Program]:
    """The programs of a plan as traces: a call of n steps has an answer of n tokens and a prompt of one chunk."""
    return [
        Program(
            program_id=name,
            workload="test",
            calls=tuple(
                Call(call_id=i, parents=w.parents, prompt_tokens=prompt_tokens, output_tokens=w.steps) for i, w in calls.items()
            ),
        )
        for name, calls in plan.items()
    ]


def simulate(programs: Sequence[Program], *, policy: str = "fcfs", balancer: str = "least_used", **options: Any) -> Simulation:
    beta = options.pop("starvation_ratio", None)
    num_engines, on_decision = options.pop("num_engines", 1), options.pop("on_decision", None)
    arrivals_s = options.pop("arrivals_s", [0.0] * len(programs))
    scheduler = SchedulerConfig(policy=policy, quanta_s=QUANTA_S, starvation_ratio=beta)
    return Simulation(
        programs,
        arrivals_s,
        engine=EngineConfig(scheduler=scheduler, **{"block_size": 4, "num_blocks": 1000, **options}),
        cost=UnitCost(),
        balancer=make_balancer(balancer),
        num_engines=num_engines,
        on_decision=on_decision,
    )


def ends(records: Sequence[ProgramRecord]) -> dict[str, float | None]:
    return {call.call_id: call.end_s for record in records for call in record.calls}


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "mlfq", "plas", "atlas", "atlas_exact"])
def test_figure_2_comes_out_as_on_paper(policy: str) -> None:
    """Two independent shells around the core agree on the paper's example, call by call."""
    config = SchedulerConfig(policy=policy, quanta_s=QUANTA_S, starvation_ratio=None)
    by_hand = run_by_hand(config, FIGURE_2, num_slots=2)
    records = simulate(programs_of(FIGURE_2), policy=policy, max_num_seqs=2).run()
    assert ends(records) == by_hand.finished_s


def decision_log(programs: Sequence[Program], **options: Any) -> list[tuple[Event, Any]]:
    """Every event of a run under PLAS, with the decisions on it."""
    log: list[tuple[Event, Any]] = []
    simulate(programs, policy="plas", on_decision=lambda event, decisions: log.append((event, decisions)), **options).run()
    return log


def test_ten_runs_are_one() -> None:
    programs = programs_of(FIGURE_2, prompt_tokens=9)
    logs = set()
    for _ in range(10):
        log = decision_log(programs, max_num_seqs=2, num_blocks=9)
        logs.add("\n".join(log_line(event, decisions) for event, decisions in log))
    assert len(logs) == 1


def test_the_core_replays_a_simulated_log_to_the_same_decisions() -> None:
    log = decision_log(programs_of(FIGURE_2), max_num_seqs=2, starvation_ratio=1.0)
    config = SchedulerConfig(policy="plas", quanta_s=QUANTA_S, starvation_ratio=1.0)
    scheduler = Scheduler(config, ProcessTable())
    reasons = set()
    for event, placed in log:
        assert scheduler.apply(event) == placed
        reasons |= {p.reason for p in placed if isinstance(p, Placed)}
    assert reasons == {"arrival", "quantum", "starving"}
    assert any(isinstance(event, StepCompleted) for event, _ in log)


def test_a_shared_prompt_is_computed_once_with_a_prefix_cache() -> None:
    programs = programs_of({name: chain(name, 2) for name in "ab"}, prompt_tokens=41)
    system = (("system", 40), ("user", 1))
    programs = [
        Program(
            program_id=p.program_id,
            workload=p.workload,
            calls=tuple(
                Call(call_id=c.call_id, parents=(), prompt_tokens=41, output_tokens=2, prompt_parts=system) for c in p.calls
            ),
        )
        for p in programs
    ]
    on = simulate(programs, max_num_seqs=1)
    off = simulate(programs, max_num_seqs=1, prefix_cache=False)
    cached = [record.calls[0].cached_tokens for record in on.run()]
    off.run()
    assert cached == [0, 40]
    assert off.engines["engine-0"].counts.computed_tokens - on.engines["engine-0"].counts.computed_tokens == 40


def test_fcfs_never_preempts_while_memory_lasts() -> None:
    simulation = simulate(programs_of(FIGURE_2), max_num_seqs=2)
    simulation.run()
    assert simulation.engines["engine-0"].counts.num_preemptions == 0


def test_gaps_are_waited_for() -> None:
    calls = (
        Call(call_id="a", parents=(), prompt_tokens=1, output_tokens=2, tool_gap_s=10.0),
        Call(call_id="b", parents=("a",), prompt_tokens=1, output_tokens=1),
    )
    record = simulate([Program(program_id="p", workload="test", calls=calls)]).run()[0]
    assert [call.ready_s for call in record.calls] == [0.0, 12.0]
    assert [call.end_s for call in record.calls] == [2.0, 13.0]


def test_calls_are_spread_over_engines() -> None:
    programs = programs_of({name: chain(name, 4) for name in "abcd"})
    one, two = (simulate(programs, max_num_seqs=1, num_engines=n, balancer="round_robin") for n in (1, 2))
    assert max(e or 0 for e in ends(one.run()).values()) == 16
    assert max(e or 0 for e in ends(two.run()).values()) == 8


class Watching(LoadBalancer):
    """Sends calls where they come first, and keeps what it was told of the engine."""

    def __init__(self) -> None:
        self.num_waiting: list[int | None] = []

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        self.num_waiting.append(engines[0].num_waiting)
        return Route(engine_ids=tuple(e.engine_id for e in engines))


@pytest.mark.parametrize(
    ("num_blocks", "expected"),
    [
        # Two slots: the two calls of the first moment are about to enter them and wait for nothing. The third one waits.
        (1000, [0, 0, 0, 1]),
        # KV for one call: at first nobody knows that; then the second one of the first moment waits, and the third.
        (4, [0, 0, 1, 2]),
    ],
)
def test_a_balancer_is_told_how_many_wait_for_a_slot_or_for_blocks(num_blocks: int, expected: list[int]) -> None:
    balancer = Watching()
    Simulation(
        programs_of({name: chain(name, 4) for name in "abcd"}, prompt_tokens=9),
        [0.0, 0.0, 1.5, 1.5],
        engine=EngineConfig(
            scheduler=SchedulerConfig(policy="fcfs"), block_size=4, num_blocks=num_blocks, max_num_seqs=2, prefix_cache=False
        ),
        cost=UnitCost(),
        balancer=balancer,
        num_engines=1,
    ).run()
    assert balancer.num_waiting == expected


def test_a_call_that_can_never_fit_is_named() -> None:
    simulation = simulate(programs_of({"big": chain("big", 2)}, prompt_tokens=100), num_blocks=25)
    with pytest.raises(CapacityError, match=r"program '0:big', call '0/big1': 102 tokens do not fit the KV cache of 100"):
        simulation.run()


@pytest.mark.parametrize(
    ("field", "value"), [("max_num_seqs", 0), ("num_blocks", 0), ("steps_per_schedule", 0), ("preemption", "forget")]
)
def test_bad_settings_are_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        EngineConfig(**{field: value})


class _Recorded:
    """A cost model that keeps what it was asked."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step_s(self, step: Step, /) -> float:
        self.steps.append(step)
        return 1.0


def test_a_step_is_counted_in_chunks_pairs_and_context() -> None:
    cost = _Recorded()
    calls = (Call(call_id="a", parents=(), prompt_tokens=10, output_tokens=3),)
    Simulation(
        [Program(program_id="p", workload="test", calls=calls)],
        [0.0],
        engine=EngineConfig(scheduler=SchedulerConfig(policy="fcfs"), max_batch_tokens=6, num_blocks=10, block_size=4),
        cost=cost,
        balancer=make_balancer("least_used"),
    ).run()
    played = cost.steps[-4:]  # the ones before are the work that the start of the program tells
    assert [(s.prefill_tokens, s.prefill_pairs) for s in played] == [(6, 21), (4, 34), (0, 0), (0, 0)]
    assert [(s.num_decodes, s.decode_context_tokens) for s in played] == [(0, 0), (0, 0), (1, 11), (1, 12)]


@pytest.mark.parametrize("policy", ["round_robin", "mlfq", "plas"])
def test_a_quantum_shorter_than_a_prefill_does_not_go_on_for_ever(policy: str) -> None:
    """Two prompts of three steps take turns of one step, and each turn would cost the other its prompt."""
    programs = programs_of({name: chain(name, 2, 2) for name in "ab"}, prompt_tokens=40)
    simulation = simulate(
        programs, policy=policy, max_num_seqs=1, max_batch_tokens=16, num_blocks=12, preemption="recompute", prefix_cache=False
    )
    assert {record.status for record in simulation.run()} == {Status.OK}
    assert simulation.now < 100
