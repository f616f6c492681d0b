"""A model of an engine small enough to check by hand: N slots, one token per step, one second per step.

All programs arrive at t = 0; a call arrives when its last parent has finished. At equal times calls complete first, then
others arrive (in the order in which the programs list them), then the scheduler is asked. Nothing costs time but steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentix.core import ProcessTable, Scheduler, SchedulerConfig, Slots
from agentix.core.events import (
    CallArrived,
    CallFinished,
    CallPreempted,
    CallStarted,
    Event,
    ProgramEnded,
    ProgramStarted,
    StepCompleted,
    log_line,
)


@dataclass(frozen=True)
class Work:
    """One call: its decode steps, and the calls that must finish before it arrives."""

    steps: int
    parents: tuple[str, ...] = ()


Program = Mapping[str, Work]


def chain(name: str, *steps: int) -> Program:
    """Calls name1, name2, … in sequence."""
    return {f"{name}{i}": Work(n, (f"{name}{i - 1}",) if i > 1 else ()) for i, n in enumerate(steps, start=1)}


@dataclass(frozen=True)
class Run:
    """What happened: per call its arrival and its end, per step its batch, and the decision log."""

    programs: Mapping[str, Program]
    arrived_s: Mapping[str, int]
    finished_s: Mapping[str, int]
    batches: tuple[tuple[str, ...], ...]
    log: tuple[str, ...]

    @property
    def makespan_s(self) -> int:
        return max(self.finished_s.values())

    def waiting_s(self, program_id: str) -> int:
        """Response time of the program less its service."""
        calls = self.programs[program_id]
        return max(self.finished_s[c] for c in calls) - sum(work.steps for work in calls.values())

    @property
    def total_waiting_s(self) -> int:
        return sum(self.waiting_s(p) for p in self.programs)

    def gantt(self) -> str:
        """A line per call, a column per step: '#' is served, '.' waits."""
        calls = [c for program in self.programs.values() for c in program]
        return "".join(f"{call} {self._bar(call)}\n" for call in calls)

    def _bar(self, call_id: str) -> str:
        start, end = self.arrived_s[call_id], self.finished_s[call_id]
        return " " * start + "".join("#" if call_id in batch else "." for batch in self.batches[start:end])


def run(config: SchedulerConfig, programs: Mapping[str, Program], num_slots: int) -> Run:
    """Serve `programs` to the end."""
    return _StepEngine(config, programs, num_slots).run()


class _StepEngine:
    def __init__(self, config: SchedulerConfig, programs: Mapping[str, Program], num_slots: int) -> None:
        self._programs = programs
        self._num_slots = num_slots
        self._scheduler = Scheduler(config, ProcessTable())
        self._now_s = 0
        self._steps_left = {call: work.steps for program in programs.values() for call, work in program.items()}
        self._arrived_s: dict[str, int] = {}
        self._finished_s: dict[str, int] = {}
        self._batches: list[tuple[str, ...]] = []
        self._log: list[str] = []

    def run(self) -> Run:
        for program_id, program in self._programs.items():
            total_s = float(sum(work.steps for work in program.values()))
            self._tell(ProgramStarted(now=0.0, program_id=program_id, total_work_s=total_s))
        self._admit_arrivals()
        while self._scheduler.order:
            self._serve(self._switch())
            self._admit_arrivals()
        for program_id in self._programs:
            self._tell(ProgramEnded(now=float(self._now_s), program_id=program_id))
        return Run(self._programs, self._arrived_s, self._finished_s, tuple(self._batches), tuple(self._log))

    def _tell(self, event: Event) -> None:
        self._log.append(log_line(event, self._scheduler.apply(event)))
        self._last = event
        self._scheduler.validate()
        self._scheduler.table.validate()

    def _admit_arrivals(self) -> None:
        """Every call whose parents are all over and that has not arrived yet arrives now."""
        for program_id, program in self._programs.items():
            for call_id, work in program.items():
                if call_id not in self._arrived_s and all(p in self._finished_s for p in work.parents):
                    self._arrived_s[call_id] = self._now_s
                    event = CallArrived(now=float(self._now_s), call_id=call_id, program_id=program_id, parents=work.parents)
                    self._tell(event)

    def _switch(self) -> tuple[str, ...]:
        """Ask for a batch and carry it out. The log has the answer beside the event that the question followed."""
        now = float(self._now_s)
        batch = self._scheduler.choose(now, Slots(self._num_slots))
        self._log.append(log_line(self._last, [batch]))
        for call_id in batch.preempt:
            self._tell(CallPreempted(now=now, call_id=call_id))
        for call_id in batch.admit:
            self._tell(CallStarted(now=now, call_id=call_id))
        return batch.run

    def _serve(self, batch: tuple[str, ...]) -> None:
        """One step: a token for every call of the batch."""
        self._now_s += 1
        self._batches.append(batch)
        self._tell(StepCompleted(now=float(self._now_s), duration_s=1.0, call_ids=batch))
        for call_id in batch:
            self._steps_left[call_id] -= 1
            if self._steps_left[call_id] == 0:
                self._finished_s[call_id] = self._now_s
                self._tell(CallFinished(now=float(self._now_s), call_id=call_id))
