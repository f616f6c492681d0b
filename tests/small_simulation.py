"""Simulations small enough to work out by hand: steps of one second, blocks of 4 tokens, and what is seen of them.

A call of n output tokens takes n steps if its prompt fits one. After k of them its prompt and k answer tokens are known, and
the KV of all but the last is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentix.core import SchedulerConfig
from agentix.core.balancers import make_balancer
from agentix.core.events import CallPreempted, CallStarted, Event, log_line, to_record
from agentix.cost import UnitCost
from agentix.metrics import CallRecord
from agentix.sim.config import EngineConfig, EngineCounts
from agentix.sim.events import ControlEvent
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program
from sim_cases import swap_cost


def one_call(name: str, output_tokens: int, *, prompt_tokens: int = 1) -> Program:
    """A program of one call, both of that name."""
    call = Call(call_id=name, parents=(), prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return Program(program_id=name, workload="test", calls=(call,))


class Played:
    """A simulation from beginning to end. `calls` are the records by the calls' names, which no two programs may share.

    `options` are those of `EngineConfig`: one slot unless more are asked for.
    """

    def __init__(
        self,
        arrivals: Sequence[tuple[float, Program]],
        control: Sequence[tuple[float, ControlEvent]] = (),
        *,
        policy: str,
        quanta_s: tuple[float, ...] = (1.0, 2.0, 4.0),
        starvation_ratio: float | None = None,
        weigh_evictions: bool = False,
        balancer: str = "least_used",
        num_engines: int = 1,
        max_programs: int | None = None,
        **options: Any,
    ) -> None:
        self.events: list[Event] = []
        self.log = ""
        self.placed: list[tuple[float, int, str]] = []  # where calls were placed: time, level, reason
        scheduler = SchedulerConfig(
            policy=policy, quanta_s=quanta_s, starvation_ratio=starvation_ratio, weigh_evictions=weigh_evictions
        )
        engine = EngineConfig(scheduler=scheduler, **{"max_num_seqs": 1, "num_blocks": 100, "block_size": 4, **options})
        self.simulation = Simulation(
            [program for _, program in arrivals],
            [arrival_s for arrival_s, _ in arrivals],
            engine=engine,
            cost=UnitCost(),
            balancer=make_balancer(balancer),
            num_engines=num_engines,
            max_programs=max_programs,
            swap_cost=swap_cost,
            control=control,
            on_decision=self._note,
        )
        records = self.simulation.run()
        self.calls: dict[str, CallRecord] = {call.call_id: call for record in records for call in record.calls}

    def _note(self, event: Event, decisions: Any) -> None:
        self.events.append(event)
        self.log += log_line(event, decisions) + "\n"
        self.placed += [(event.now, decision.level, decision.reason) for decision in decisions]

    @property
    def ends_s(self) -> dict[str, float | None]:
        """When each call ended."""
        return {name: call.end_s for name, call in self.calls.items()}

    @property
    def started_s(self) -> dict[str, float]:
        """When each call entered a batch for the last time."""
        return {_name(event.call_id): event.now for event in self.events if isinstance(event, CallStarted)}

    @property
    def preempted_s(self) -> list[tuple[str, float]]:
        """Who had to leave a batch, and when."""
        return [(_name(event.call_id), event.now) for event in self.events if isinstance(event, CallPreempted)]

    @property
    def counts(self) -> EngineCounts:
        """What the only engine has counted."""
        (engine,) = self.simulation.engines.values()
        return engine.counts

    def story(self, call_id: str) -> list[tuple[str, float, str]]:
        """What happened to a call, by the simulation's id: event, time and engine, but for its steps."""
        records = [(event.now, to_record(event)) for event in self.events]
        return [(r["type"], now, r.get("engine_id", "")) for now, r in records if r.get("call_id") == call_id]


def _name(call_id: str) -> str:
    return call_id.partition("/")[2]
