"""What a run has measured so far. Complete at every moment, so an interrupted run still has a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentix.bench.plan import Plan, PlannedProgram
from agentix.metrics import CallRecord, ProgramRecord, Status
from agentix.workload import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    num_programs: int
    num_programs_done: int
    num_calls_in_flight: int
    num_failed_calls: int


class Recorder:
    """Keeps the records of a run; calls `on_progress` after each change. One event loop, no locks."""

    def __init__(self, plan: Plan, *, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._plan = plan
        self._on_progress = on_progress
        self._calls: dict[tuple[str, str], CallRecord] = {}
        self._end_errors: dict[str, str] = {}
        self._failures: list[CallRecord] = []
        self._num_done = 0
        self._num_in_flight = 0

    @property
    def failures(self) -> list[CallRecord]:
        """Failed calls, first failure first."""
        return list(self._failures)

    def call_started(self) -> None:
        """A request goes out."""
        self._num_in_flight += 1
        self._report()

    def call_ended(self, record: CallRecord) -> None:
        """A request that went out is over, in whatever way."""
        self._calls[record.program_id, record.call_id] = record
        self._num_in_flight -= 1
        if record.status is Status.FAILED:
            self._failures.append(record)
        self._report()

    def program_ended(self, program_id: str, *, end_error: str | None) -> None:
        """Nothing more will happen in that program."""
        if end_error is not None:
            self._end_errors[program_id] = end_error
        self._num_done += 1
        self._report()

    def records(self) -> list[ProgramRecord]:
        """All programs of the plan, in order of arrival; calls that were never sent are there as NOT_RUN."""
        return [
            ProgramRecord(
                program_id=program.program_id,
                trace_program_id=program.source.program_id,
                workload=program.source.workload,
                arrival_s=program.arrival_s,
                calls=tuple(self._record_of(program, call) for call in program.source.calls),
                end_error=self._end_errors.get(program.program_id),
            )
            for program in self._plan.programs
        ]

    def _record_of(self, program: PlannedProgram, call: Call) -> CallRecord:
        return self._calls.get((program.program_id, call.call_id)) or new_record(program, call)

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    num_programs=len(self._plan.programs),
                    num_programs_done=self._num_done,
                    num_calls_in_flight=self._num_in_flight,
                    num_failed_calls=len(self._failures),
                )
            )


def new_record(program: PlannedProgram, call: Call) -> CallRecord:
    """The record of a call that was not sent."""
    return CallRecord(
        program_id=program.program_id,
        call_id=call.call_id,
        thread_id=program.threads[call.call_id],
        parents=call.parents,
        status=Status.NOT_RUN,
        max_tokens=call.max_tokens,
        trace_prompt_tokens=call.prompt_tokens,
    )
