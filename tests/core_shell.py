"""The smallest shell around the core: owns a clock, turns one-word calls into events. For tests of one behaviour each."""

from __future__ import annotations

from typing import Any

from agentix.core import CallRow, ProcessTable, ProgramRow, Scheduler, SchedulerConfig, Slots
from agentix.core.capacity import EngineCapacity
from agentix.core.events import (
    Batch,
    CallAborted,
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Placed,
    ProgramEnded,
    ProgramStarted,
    StepCompleted,
)


class Shell:
    """One scheduler, of PLAS and without starvation unless asked for. Settings are those of SchedulerConfig."""

    def __init__(self, table: ProcessTable | None = None, *, capacity_tokens: int | None = None, **settings: Any) -> None:
        config = SchedulerConfig(**{"policy": "plas", "starvation_ratio": None, **settings})
        capacity = None if capacity_tokens is None else EngineCapacity(kv_tokens=capacity_tokens, num_slots=8)
        self.scheduler = Scheduler(config, table or ProcessTable(), capacity=capacity)
        self.table = self.scheduler.table
        self.now = 0.0

    def wait(self, seconds: float) -> list[Placed]:
        """Time passes and no call is served."""
        return self.step(seconds)

    def begin(self, program_id: str, **fields: Any) -> list[Placed]:
        return self.scheduler.apply(ProgramStarted(now=self.now, program_id=program_id, **fields))

    def end(self, program_id: str) -> list[Placed]:
        return self.scheduler.apply(ProgramEnded(now=self.now, program_id=program_id))

    def arrive(self, call_id: str, program_id: str = "p", **fields: Any) -> list[Placed]:
        return self.scheduler.apply(CallArrived(now=self.now, call_id=call_id, program_id=program_id, **fields))

    def start(self, call_id: str) -> list[Placed]:
        return self.scheduler.apply(CallStarted(now=self.now, call_id=call_id))

    def preempt(self, call_id: str) -> list[Placed]:
        return self.scheduler.apply(CallPreempted(now=self.now, call_id=call_id))

    def step(self, seconds: float, *call_ids: str) -> list[Placed]:
        self.now += seconds
        return self.scheduler.apply(StepCompleted(now=self.now, duration_s=seconds, call_ids=call_ids))

    def finish(self, call_id: str, **fields: Any) -> list[Placed]:
        return self.scheduler.apply(CallFinished(now=self.now, call_id=call_id, **fields))

    def abort(self, call_id: str, **fields: Any) -> list[Placed]:
        return self.scheduler.apply(CallAborted(now=self.now, call_id=call_id, **fields))

    def serve(self, call_id: str, seconds: float, program_id: str = "p", **fields: Any) -> list[Placed]:
        """A call from its arrival to its end, alone on the engine. Returns where it was placed on arrival."""
        placed = self.arrive(call_id, program_id, **fields)
        self.start(call_id)
        self.step(seconds, call_id)
        self.finish(call_id)
        return placed

    def choose(self, num_slots: int) -> Batch:
        return self.scheduler.choose(self.now, Slots(num_slots))

    def row(self, program_id: str = "p") -> ProgramRow:
        return self.table.row(program_id)

    def call(self, call_id: str) -> CallRow:
        return self.table.call(call_id)
