"""The global process table: what has each program had, and where is it? (paper §4.2.1)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from agentix.core.errors import InvalidTransition, UnknownCall, UnknownProgram
from agentix.core.events import (
    CallAborted,
    CallArrived,
    CallFinished,
    CallMoved,
    CallPreempted,
    CallStarted,
    Event,
    ProgramEnded,
    ProgramStarted,
    ProgramWeighted,
    ServedElsewhere,
    StepCompleted,
    TotalsLearnt,
)
from agentix.core.history import Histories, is_named
from agentix.core.learning import Learning
from agentix.core.program import MAX_PATHS, MAX_WEIGHT, MIN_WEIGHT, OUTPUT_WEIGHT, CallRow, ProgramRow, check_elsewhere


class ProcessTable:
    """One row per live program. `apply` is the only door that changes it; everything else reads.

    A row appears with the program's session or its first call, and goes when the session ends (once its last active
    call is over). An event that is impossible now raises and leaves the table as it was. Not thread-safe: one shell
    owns it. Every event costs time in proportion to the calls it names.
    """

    def __init__(self) -> None:
        self._rows: dict[str, ProgramRow] = {}
        self._calls: dict[str, CallRow] = {}
        self.rows: Mapping[str, ProgramRow] = MappingProxyType(self._rows)
        """All rows by program id, oldest first; read-only."""
        self.calls: Mapping[str, CallRow] = MappingProxyType(self._calls)
        """All active calls by call id, oldest first; read-only."""
        self._learning = Learning(self._rows)
        self._listeners: list[Callable[[ProgramRow], None]] = []
        self._watchers: dict[str, Callable[[CallRow, ProgramRow], None]] = {}  # of active calls, by call id
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            ProgramStarted: self._program_started,
            ProgramEnded: self._program_ended,
            ProgramWeighted: self._program_weighted,
            ServedElsewhere: self._served_elsewhere,
            TotalsLearnt: self._learning.learnt,
            CallArrived: self._call_arrived,
            CallMoved: self._call_moved,
            CallStarted: self._call_started,
            CallPreempted: self._call_preempted,
            StepCompleted: self._step_completed,
            CallFinished: self._call_over,
            CallAborted: self._call_over,
        }

    @property
    def histories(self) -> Histories:
        """What programs that are over have needed, by class; to be read."""
        return self._learning.histories

    def row(self, program_id: str) -> ProgramRow:
        """The program's row. Raises UnknownProgram."""
        try:
            return self._rows[program_id]
        except KeyError:
            raise UnknownProgram(program_id) from None

    def call(self, call_id: str) -> CallRow:
        """The active call. Raises UnknownCall."""
        try:
            return self._calls[call_id]
        except KeyError:
            raise UnknownCall(call_id) from None

    def stale(self, now: float, idle_s: float) -> list[str]:
        """Programs without an active call for longer than `idle_s`: candidates for ProgramEnded."""
        return [
            row.program_id
            for row in self._rows.values()
            if not row.calls and now - max(row.started_s, row.last_arrival_s or 0.0, row.last_completion_s or 0.0) > idle_s
        ]

    def on_totals(self, listener: Callable[[ProgramRow], None]) -> None:
        """Have `listener` called with the row whenever a program's attained service or waiting has changed, for ever.

        For who lives as long as the table. A queue, which comes and goes with its engine, watches its calls instead.
        """
        self._listeners.append(listener)

    def watch(self, call_id: str, watcher: Callable[[CallRow, ProgramRow], None]) -> None:
        """Have `watcher` called with an active call whenever its program's attained service or waiting has changed.

        A call has one watcher, that of the queue in which it stands; it is forgotten with the call, or by `unwatch`.
        """
        self._watchers[self.call(call_id).call_id] = watcher

    def unwatch(self, call_id: str, watcher: Callable[[CallRow, ProgramRow], None]) -> None:
        """The watcher wants to hear of the call no more; nothing happens if it is not the call's watcher."""
        if self._watchers.get(call_id) == watcher:
            del self._watchers[call_id]

    def apply(self, event: Event) -> None:
        """Change the table by one event.

        Raises UnknownProgram, UnknownCall or InvalidTransition, and then changes nothing.
        """
        handler = self._handlers.get(type(event))
        if handler is None:
            raise InvalidTransition(f"not an event of the process table: {event}")
        handler(event)

    def _program_started(self, event: ProgramStarted) -> None:
        self._open(event.program_id, event.program_class, event.now, event.total_work_s)

    def _open(self, program_id: str, program_class: str, started_s: float, total_work_s: float | None = None) -> ProgramRow:
        """The program's row, a new one if it has none; it is live from now on, and of the class if it has no better one."""
        row = self._rows.get(program_id)
        if row is None:
            row = ProgramRow(program_id=program_id, started_s=started_s, total_work_s=total_work_s)
            self._rows[program_id] = row
            self._learning.classify(row, program_class)
        else:
            row.ended = False
            if program_class and not is_named(row.program_class):
                self._learning.classify(row, program_class)
        return row

    def _program_ended(self, event: ProgramEnded) -> None:
        row = self.row(event.program_id)
        row.ended = True
        self._drop_if_over(row)

    def _program_weighted(self, event: ProgramWeighted) -> None:
        if not MIN_WEIGHT <= event.weight <= MAX_WEIGHT:
            raise InvalidTransition(f"a weight must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}: {event}")
        self.row(event.program_id).weight = event.weight

    def _served_elsewhere(self, event: ServedElsewhere) -> None:
        check_elsewhere(event)
        row = self._rows.get(event.program_id)
        if row is None:
            row = self._open(event.program_id, "", event.now if event.started_s is None else event.started_s)
        row.add_elsewhere(event)
        self._learning.classify(row, event.program_class or row.program_class)
        self._tell(row)

    def _call_arrived(self, event: CallArrived) -> None:
        if event.call_id in self._calls:
            raise InvalidTransition(f"call {event.call_id!r} arrived twice: {self._calls[event.call_id]}")
        if event.pin and not event.engine_id:
            raise InvalidTransition(f"a pin to no engine: {event}")
        row = self._open(event.program_id, event.program_class or "", event.now)
        attained = event.attained
        elsewhere_s = row.catch_up(attained) if attained is not None else 0.0
        if attained is not None and attained.program_class is not None:
            is_better = is_named(attained.program_class) or not is_named(row.program_class)
            self._learning.classify(row, attained.program_class if attained.program_class and is_better else row.program_class)
        exact_s = attained.path_s if attained is not None else None
        call = CallRow(
            call_id=event.call_id,
            program_id=event.program_id,
            arrived_s=event.now,
            engine_id=event.engine_id,
            thread_id=event.thread_id,
            parents=event.parents,
            prompt_tokens=event.prompt_tokens,
            priority=event.priority or 0,
            scalar_s=row.critical_path_s,
            path_s=self._path_s(row, event.parents) if exact_s is None else exact_s,
        )
        self._note_arrival(row, event, elsewhere_s)
        if event.engine_id and event.engine_id not in row.engine_ids:
            row.engine_ids.append(event.engine_id)
        if event.pin:
            row.home_engine_id = event.engine_id
        row.last_arrival_s = event.now
        row.calls[call.call_id] = call
        self._calls[call.call_id] = call
        if attained is not None:
            self._tell(row)

    @staticmethod
    def _note_arrival(row: ProgramRow, event: CallArrived, elsewhere_s: float) -> None:
        """The gap that ends with the call, if the program was idle, and the context it brings, if that is known.

        `elsewhere_s`: so much longer has the program's path become meanwhile, where this table does not see it.
        """
        if not row.calls and row.last_completion_s is not None:
            row.gaps_s += max(0.0, event.now - row.last_completion_s - elsewhere_s)
            row.num_gaps += 1
        if event.prompt_tokens is not None:
            others = row.context_tokens if row.calls else 0
            row.context_tokens = max(others, event.prompt_tokens)

    @staticmethod
    def _note_tokens(row: ProgramRow, call: CallRow, event: CallFinished | CallAborted) -> None:
        """What the call leaves in the accounts of tokens. Of an aborted call nobody knows how many it had."""
        row.recent_tokens = row.recent_tokens_at(event.now)
        if isinstance(event, CallFinished):
            prompt_tokens, output_tokens = call.prompt_tokens or 0, event.output_tokens or 0
            row.recent_tokens += prompt_tokens + OUTPUT_WEIGHT * output_tokens
            row.context_tokens = max(row.context_tokens, prompt_tokens + output_tokens)

    @staticmethod
    def _path_s(row: ProgramRow, parents: tuple[str, ...] | None) -> float:
        """p(c) by exact parents (eq. 2): 0 for a root call, else the longest path that ends with a parent.

        Where no parent is known to us the program's scalar stands in for it. A parent that still runs counts with the
        service it has had so far.
        """
        if parents == ():
            return 0.0
        paths = [row.path_s[p] for p in parents or () if p in row.path_s]
        paths += [row.calls[p].path_s + row.calls[p].service_s for p in parents or () if p in row.calls]
        return max(paths, default=row.critical_path_s)

    def _call_moved(self, event: CallMoved) -> None:
        call = self.call(event.call_id)
        row = self._rows[call.program_id]
        if event.pin if event.pin is not None else row.home_engine_id == call.engine_id:
            row.home_engine_id = event.engine_id
        call.engine_id = event.engine_id
        call.running = False
        if event.engine_id not in row.engine_ids:
            row.engine_ids.append(event.engine_id)

    def _call_started(self, event: CallStarted) -> None:
        call = self.call(event.call_id)
        if call.running:
            raise InvalidTransition(f"call started while it runs: {call}")
        call.running = True

    def _call_preempted(self, event: CallPreempted) -> None:
        call = self.call(event.call_id)
        if not call.running:
            raise InvalidTransition(f"call preempted while it waits: {call}")
        call.running = False

    def _step_completed(self, event: StepCompleted) -> None:
        if not event.duration_s >= 0:
            raise InvalidTransition(f"a step of negative duration: {event}")
        try:
            calls = [self._calls[call_id] for call_id in event.call_ids]
        except KeyError as error:
            raise UnknownCall(error.args[0]) from None
        if len(set(event.call_ids)) < len(event.call_ids):
            raise InvalidTransition(f"a step that serves a call twice: {event}")
        duration_s = event.duration_s
        for call in calls:
            call.service_s += duration_s

    def _call_over(self, event: CallFinished | CallAborted) -> None:
        call = self.call(event.call_id)
        row = self._rows[call.program_id]
        service_s = call.service_s if event.service_s is None else event.service_s
        elapsed_s = event.now - call.arrived_s
        waiting_s = max(0.0, elapsed_s - service_s) if event.waiting_s is None else event.waiting_s
        if not (service_s >= 0 and waiting_s >= 0):
            raise InvalidTransition(f"negative service or waiting: {event}")
        row.service_s += service_s
        row.waiting_s += waiting_s
        row.critical_path_s = max(row.critical_path_s, call.scalar_s + service_s)
        row.path_s[call.call_id] = call.path_s + service_s
        if len(row.path_s) > MAX_PATHS:
            del row.path_s[next(iter(row.path_s))]
        self._note_tokens(row, call, event)
        row.last_completion_s = event.now
        if isinstance(event, CallFinished):
            row.num_finished += 1
        else:
            row.num_aborted += 1
        del row.calls[call.call_id]
        del self._calls[call.call_id]
        self._watchers.pop(call.call_id, None)
        self._drop_if_over(row)
        self._tell(row)

    def _tell(self, row: ProgramRow) -> None:
        for call in row.calls.values():
            if (watcher := self._watchers.get(call.call_id)) is not None:
                watcher(call, row)
        for listener in self._listeners:
            listener(row)

    def _drop_if_over(self, row: ProgramRow) -> None:
        if row.ended and not row.calls:
            del self._rows[row.program_id]
            self._learning.over(row)

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(programs + calls)."""
        listed = {call_id: call for row in self._rows.values() for call_id, call in row.calls.items()}
        problems = [
            (listed.keys() == self._calls.keys(), "the rows and the index of active calls differ"),
            (all(listed[i] is c for i, c in self._calls.items() if i in listed), "a call is held twice"),
            (self._watchers.keys() <= self._calls.keys(), "a call that is over is still watched"),
            (all(i == r.program_id for i, r in self._rows.items()), "a row stands under another id"),
            (all(c.program_id == i for i, r in self._rows.items() for c in r.calls.values()), "a call is in another's row"),
            (all(not r.ended or r.calls for r in self._rows.values()), "an ended program without calls has a row"),
            (
                all(min(r.service_s, r.waiting_s, r.critical_path_s) >= 0 for r in self._rows.values()),
                "negative service or waiting",
            ),
            (all(c.service_s >= 0 for c in self._calls.values()), "a call with negative service"),
            (
                all(r.home_engine_id is None or r.home_engine_id in r.engine_ids for r in self._rows.values()),
                "a home engine that was never used",
            ),
        ]
        for holds, message in problems:
            if not holds:
                raise InvalidTransition(f"process table is inconsistent: {message}")
