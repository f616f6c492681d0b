"""Which programs an engine holds back: the medium-term decision (whose context stays) beside the short-term one (who runs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentix.core.capacity import EngineCapacity
from agentix.core.policies.base import SchedulingPolicy
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow

_CROWD = 256


@dataclass(slots=True)
class Holding:
    """The programs held back on one engine, for its scheduler; the policy decides and keeps no state of its own.

    `capacity` is the engine's; None (not known, or the policy holds nothing): nobody is held back. `is_ready`:
    whether a call that waits could run if it were let; one that waits for something else keeps no engine at work.
    A program belongs to the engine that its latest call came to, and to any where a call of it is active.
    """

    capacity: EngineCapacity | None
    is_ready: Callable[[str], bool]
    held: frozenset[str] = frozenset()
    _num_changes: int = 0  # calls that came or went since the policy was asked
    _latest: dict[str, int] = field(default_factory=dict)  # program: which of its calls was the latest that came here

    def arrived(self, row: ProgramRow) -> None:
        """A call of the program has come to this engine."""
        if self.capacity is not None:
            if self.held and self._is_crowded and row.program_id not in self._latest:
                self.held |= {row.program_id}
            self._latest[row.program_id] = row.num_arrived
            self._num_changes += 1

    @property
    def _is_crowded(self) -> bool:
        return len(self._latest) > _CROWD

    def left(self) -> None:
        """A call has gone from this engine."""
        self._num_changes += 1

    def passes(self, call: CallRow) -> bool:
        """Whether the call may be in the batch: it runs already, or its program is not held back."""
        return call.running or call.program_id not in self.held

    def decide(
        self, policy: SchedulingPolicy, table: ProcessTable, active: Iterable[CallRow], *, idle: bool, now: float
    ) -> None:
        """Ask the policy. O(programs), and nothing where nobody can be held back.

        Where more than _CROWD programs are here it is not asked each time, but when calls have come or gone in proportion, so
        that the cost per call stays bounded; a program that comes in between waits if others do.

        `active`: this engine's calls in order; `idle`: none of them runs. An engine with work never stands still: if
        nothing runs and everybody who is ready would be held back, the program that is first in order is let go, and the
        policy asked again, for it may want to hold back others instead.
        """
        if self.capacity is None or (self._is_crowded and not idle and self._num_changes * _CROWD < len(self._latest)):
            return
        self._num_changes = 0
        calls = list(active)
        rows = self._rows_here(table, calls)
        held = self.held.intersection(row.program_id for row in rows)
        held = policy.held_back(rows, held, self.capacity, now)
        ready = [call.program_id for call in calls if self.is_ready(call.call_id)] if idle else []
        if ready and held.issuperset(ready):
            first = {ready[0]}
            held = policy.held_back(rows, held - first, self.capacity, now)
            if held.issuperset(ready):
                held -= first
        self.held = held

    def _rows_here(self, table: ProcessTable, calls: list[CallRow]) -> list[ProgramRow]:
        """Rows of the programs whose KV this engine may hold, in order of their first call here; forgets the others."""
        active = {call.program_id for call in calls}
        rows = {i: row for i in self._latest if (row := table.rows.get(i)) is not None}
        here = {i: row for i, row in rows.items() if i in active or row.num_arrived == self._latest[i]}
        self._latest = {i: latest for i, latest in self._latest.items() if i in here}
        return list(here.values())
