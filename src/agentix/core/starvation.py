"""Which calls of a queue starve, and when: those whose waiting has grown to β times their service (paper §4.2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from agentix.core.entry import Entry
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow
from agentix.core.watch import Watch


class Starvation:
    """Finds the calls that starve without looking at those that cannot.

    A waiting call is looked at no later than it starves (`due`); a running one whenever a step is charged to it (`reaches`).
    A call on the highest level that it may reach (`top_level`) has nothing to gain and never starves. `entries` are the
    queue's, by call id, and the scheduler's to change. `beta` None: nobody starves. `by_program`: what a program had before
    the call counts too. Where the policy has an answer of its own (`Entry.due_s`) that holds instead, for waiting calls alone;
    `due_s` is asked for it again when the moment has come, since the program may have been served meanwhile.
    """

    def __init__(
        self,
        table: ProcessTable,
        entries: Mapping[str, Entry],
        *,
        beta: float | None,
        by_program: bool,
        due_s: Callable[[CallRow, ProgramRow, float], float | None],
    ) -> None:
        self._table = table
        self._due_s = due_s
        self._entries = entries
        self._beta = beta
        self._by_program = by_program
        self._watch = Watch()

    @property
    def next_s(self) -> float:
        """No waiting call starves before this moment, unless something happens to it; math.inf if none ever does."""
        return self._watch.next_s

    def watch(self, call: CallRow, row: ProgramRow) -> None:
        """Make sure that the call, if it waits, is looked at no later than it starves."""
        entry = self._entries[call.call_id]
        if self._beta is None and entry.due_s is None:
            return
        self._table.watch(call.call_id, self._totals_changed)
        if entry.level > top_level(call) and not call.running:
            self._watch.note(call.call_id, self._starves_at(call, row, entry))

    def forget(self, call_id: str) -> None:
        """The call is gone, or has another place: what was noted of it no longer holds."""
        self._table.unwatch(call_id, self._totals_changed)
        self._watch.forget(call_id)

    def reaches(self, entry: Entry, call_id: str, now: float) -> bool:
        """Whether the running call starves now; if not, notes until when it cannot."""
        call, row = self._look_up(call_id)
        has_to_gain = entry.due_s is None and entry.level > top_level(call)
        entry.safe_until_s = self._starves_at(call, row, entry) if has_to_gain else math.inf
        return entry.safe_until_s <= now

    def due(self, now: float) -> Iterator[tuple[CallRow, ProgramRow]]:
        """The waiting calls that starve by now, the earliest first; each is to be given its new place before the next."""
        for call_id in self._watch.due(now):
            call, row = self._look_up(call_id)
            if call.running:
                continue
            entry = self._entries[call_id]
            entry.due_s = self._due_s(call, row, now)
            if self._starves_at(call, row, entry) <= now:
                yield call, row
            else:
                self.watch(call, row)

    def _look_up(self, call_id: str) -> tuple[CallRow, ProgramRow]:
        call = self._table.call(call_id)
        return call, self._table.row(call.program_id)

    def _starves_at(self, call: CallRow, row: ProgramRow, entry: Entry) -> float:
        if entry.due_s is not None:
            return entry.due_s
        if self._beta is None:
            return math.inf
        return entry.starves_at(call, row, beta=self._beta, by_program=self._by_program)

    def _totals_changed(self, call: CallRow, row: ProgramRow) -> None:
        """The totals of the call's program changed, and with them the moment at which it starves."""
        self._entries[call.call_id].safe_until_s = -math.inf
        self.watch(call, row)

    def covers(self, call_id: str) -> bool:
        """Whether the call will be looked at no later than it starves, if that is a thing to look for."""
        if call_id not in self._table.calls:
            return True  # a problem of its own
        entry, (call, row) = self._entries[call_id], self._look_up(call_id)
        return entry.level <= top_level(call) or call.running or self._watch.covers(call_id, self._starves_at(call, row, entry))

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(calls · log calls)."""
        self._watch.validate()


def top_level(call: CallRow) -> int:
    """The level that the call is promoted to: the first, or as many below it as its `priority` says."""
    return max(0, call.priority)
