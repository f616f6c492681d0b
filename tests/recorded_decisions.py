"""What a real engine decided, as `benchmarks.record_decisions` keeps it; and the same programs on a simulated engine."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Self

from agentix.core.balancers import make_balancer
from agentix.core.events import CallArrived, CallFinished, CallStarted, Event, Placed, StepCompleted, from_record
from agentix.cost import EngineFacts, Step, fit
from agentix.engine.settings import PluginSettings
from agentix.sim.config import engine_like
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program

RECORDED = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One engine's decision log. `steps` are the work and the time of every step that has returned, in order."""

    engine: EngineFacts
    settings: PluginSettings
    log: Sequence[tuple[Event, list[Placed]]]
    steps: Sequence[tuple[Step, float]]

    @classmethod
    def load(cls, name: str) -> Self:
        """Read the recording of that name."""
        first, *lines = map(json.loads, gzip.decompress((RECORDED / name).read_bytes()).splitlines())
        log = [(from_record(line["event"]), [from_record(decision) for decision in line["decisions"]]) for line in lines]
        works = [Step(**line["work"]) for line in lines if "work" in line]
        times_s = [event.duration_s for event, _ in log if isinstance(event, StepCompleted)]
        return cls(
            engine=EngineFacts.from_mapping(first["engine"]),
            settings=PluginSettings.from_mapping(first["settings"]),
            log=log,
            steps=list(zip(works, times_s, strict=True)),
        )

    @property
    def events(self) -> list[Event]:
        """What happened, in order."""
        return [event for event, _ in self.log]

    def programs(self) -> list[Program]:
        """The programs that came, each a chain of the calls that it made."""
        tokens = {event.call_id: event.output_tokens or 0 for event in self.events if isinstance(event, CallFinished)}
        ended_s = {event.call_id: event.now for event in self.events if isinstance(event, CallFinished)}
        arrivals: defaultdict[str, list[CallArrived]] = defaultdict(list)
        for event in self.events:
            if isinstance(event, CallArrived):
                arrivals[event.program_id].append(event)
        return [
            Program(
                program_id=program_id,
                workload="recorded",
                arrival_s=calls[0].now,
                calls=tuple(
                    Call(
                        call_id=call.call_id,
                        parents=(before.call_id,) if before is not None else (),
                        prompt_tokens=call.prompt_tokens or 1,
                        output_tokens=tokens[call.call_id],
                        tool_gap_s=after.now - ended_s[call.call_id] if after is not None else None,
                    )
                    for before, call, after in zip([None, *calls], calls, [*calls[1:], None], strict=False)
                ),
            )
            for program_id, calls in arrivals.items()
        ]

    def pauses_s(self) -> float:
        """What lies between two steps of an engine at work: the median."""
        steps = [event for event in self.events if isinstance(event, StepCompleted)]
        return median(b.now - b.duration_s - a.now for a, b in pairwise(steps))


def simulate(recording: Recording, **scheduler: Any) -> list[Event]:
    """What happens on a modelled engine with the plug-in's rules, if the same programs come when they came.

    `scheduler`: settings in which it is to differ from the engine that was recorded.
    """
    engine = replace(
        engine_like(recording.engine),
        scheduler=replace(recording.settings.scheduler, **scheduler),
        preemption=recording.settings.preemption,
        scheduling_s=recording.pauses_s(),
    )
    programs = recording.programs()
    events: list[Event] = []
    Simulation(
        programs,
        [program.arrival_s or 0.0 for program in programs],
        engine=engine,
        cost=fit(recording.steps),
        balancer=make_balancer("round_robin"),
        on_decision=lambda event, _: events.append(event),
    ).run()
    return events


def overtakings(events: Iterable[Event]) -> set[tuple[str, str]]:
    """(first, second): the second call came later and was started earlier. Under first come, first served there are none."""
    arrived: dict[str, int] = {}
    started: dict[str, int] = {}
    for place, event in enumerate(events):
        if isinstance(event, CallArrived):
            arrived[_name(event.call_id)] = place
        elif isinstance(event, CallStarted):
            started.setdefault(_name(event.call_id), place)
    order = sorted(arrived, key=arrived.__getitem__)
    return {(a, b) for place, a in enumerate(order) for b in order[place + 1 :] if started[b] < started[a]}


def _name(call_id: str) -> str:
    """The engine's name of a call; a simulation puts the number of its program before it."""
    return call_id.rpartition("/")[2]
