"""Which programs an engine holds back: the medium-term decision (whose context stays) beside the short-term one (who runs)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from agentix.core.capacity import EngineCapacity
from agentix.core.errors import InvalidTransition
from agentix.core.policies.base import SchedulingPolicy
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow

# With more programs than this the policy is asked less often, and of those held back about the first so many alone.
_CROWD = 256
_PAUSE_S = 0.0002  # per program that it is asked about, until it is asked again: ten to twenty times what asking takes


@dataclass(slots=True)
class Holding:
    """The programs held back on one engine, for its scheduler; the policy decides and keeps no state of its own.

    `capacity` is the engine's; None (not known, or the policy holds nothing): nobody is held back. `is_ready`:
    whether a call that waits could run if it were let; one that waits for something else keeps no engine at work.
    `is_here`: whether a call is active on this engine. A program belongs to the engine that its latest call came to, and to
    any where a call of it is active.
    """

    capacity: EngineCapacity | None
    is_ready: Callable[[str], bool]
    is_here: Callable[[str], bool]
    num_held_back: int = 0  # how often a program has been held back so far
    num_displaced: int = 0  # how often it had been served before, so that its context may lose its place
    num_let_go: int = 0  # how often one that was held back has been let go
    _latest: dict[str, int] = field(default_factory=dict)  # program: which of its calls was the latest that came here
    _held: set[str] = field(default_factory=set)
    _open: dict[str, None] = field(default_factory=dict)  # those of _latest that are not held back
    _num_calls: int = 0  # active here
    _num_changes: int = 0  # calls that came or went since the policy was asked
    _num_unswept: int = 0  # the same, since programs that are no longer here were forgotten
    _pause_until_s: float = -math.inf

    @property
    def held(self) -> frozenset[str]:
        """The programs held back. O(programs)."""
        return frozenset(self._held)

    @property
    def holds_any(self) -> bool:
        """Whether any program is held back. O(1)."""
        return bool(self._held)

    @property
    def counts(self) -> dict[str, int]:
        """What has happened so far, by name."""
        return {name: getattr(self, name) for name in ("num_held_back", "num_displaced", "num_let_go")}

    @property
    def _is_crowded(self) -> bool:
        return len(self._latest) > _CROWD

    def arrived(self, row: ProgramRow) -> None:
        """A call of the program has come to this engine."""
        if self.capacity is None:
            return
        if row.program_id not in self._latest:
            if self._held and self._is_crowded:
                self._held.add(row.program_id)
                self.num_held_back += 1
            else:
                self._open[row.program_id] = None
        self._latest[row.program_id] = row.num_arrived
        self._num_calls += 1
        self._count_change()

    def left(self) -> None:
        """A call has gone from this engine."""
        self._num_calls -= 1
        self._count_change()

    def _count_change(self) -> None:
        self._num_changes += 1
        self._num_unswept += 1

    def passes(self, call: CallRow) -> bool:
        """Whether the call may be in the batch: it runs already, or its program is not held back."""
        return call.running or call.program_id not in self._held

    def decide(
        self, policy: SchedulingPolicy, table: ProcessTable, active: Iterable[CallRow], *, idle: bool, now: float
    ) -> list[str]:
        """Ask the policy; returns the programs that it holds back or lets go from now on.

        `active`: this engine's calls in order; `idle`: none of them runs. An engine with work never stands still: if
        nothing runs and everybody who is ready would be held back, the program that is first in order is let go, and the
        policy asked again, for it may want to hold back others instead.

        O(programs), and nothing where nobody can be held back or the answer would be the same. In a crowd (more than
        _CROWD programs) the policy is asked once in _PAUSE_S per program at most, about those that are not held back and
        the first _CROWD of the others, in the order of their calls; a program that comes in between waits if others do. So
        it takes a bounded share of the time, however many wait.
        """
        if self.capacity is None or self._would_be_the_same(idle=idle, now=now):
            return []
        self._num_changes = 0
        if self._is_crowded and self._num_unswept > len(self._latest):
            self._rows_here(table, list(self._latest))
            self._num_unswept = 0
        calls = list(active) if idle else active
        ready = [call.program_id for call in calls if self.is_ready(call.call_id)] if idle else []
        first = self._first_held(calls)
        rows = self._rows_here(table, self._asked_about(first, ready[:1]))
        self._pause_until_s = now + _PAUSE_S * len(rows)
        held = self._ask(policy, rows, ready, self._capacity_for(rows, self.capacity), now)
        return self._settle(rows, held)

    def _would_be_the_same(self, *, idle: bool, now: float) -> bool:
        """Whether there is no need to ask: an answer holds until a call comes or goes."""
        if not self._num_changes and not self._held:
            return True
        return self._is_crowded and not idle and (not self._num_changes or now < self._pause_until_s)

    def _first_held(self, calls: Iterable[CallRow]) -> list[str]:
        """The first _CROWD programs with calls that are held back, in the order of those."""
        if not self._held:
            return []
        held = (call.program_id for call in calls if call.program_id in self._held)
        return list(dict.fromkeys(islice(held, _CROWD)))

    def _asked_about(self, first: Iterable[str], ready: Iterable[str]) -> list[str]:
        """The programs that the policy is asked about: all, in the order of their first call here, unless they are many.

        Then those that are not held back, and these two kinds of the others.
        """
        if not self._is_crowded:
            return list(self._latest)
        return [*self._open, *dict.fromkeys([*(i for i in ready if i in self._held), *first])]

    def _rows_here(self, table: ProcessTable, program_ids: Iterable[str]) -> list[ProgramRow]:
        """Rows of those whose KV this engine may hold; forgets the others."""
        rows = []
        for program_id in program_ids:
            row = table.rows.get(program_id)
            if row is not None and (row.num_arrived == self._latest[program_id] or any(map(self.is_here, row.calls))):
                rows.append(row)
            else:
                del self._latest[program_id]
                self._open.pop(program_id, None)
                self._held.discard(program_id)
        return rows

    def _capacity_for(self, rows: Sequence[ProgramRow], capacity: EngineCapacity) -> EngineCapacity:
        """The engine as the policy is to see it: whoever it is not asked about waits too while a context is computed again."""
        num_waiting = sum(bool(row.calls) for row in rows)
        if not self._is_crowded or not num_waiting:
            return capacity
        per_row = max(1.0, self._num_calls / num_waiting)
        return replace(capacity, prefill_s_per_token=capacity.prefill_s_per_token * per_row)

    def _ask(
        self,
        policy: SchedulingPolicy,
        rows: Sequence[ProgramRow],
        ready: Sequence[str],
        capacity: EngineCapacity,
        now: float,
    ) -> frozenset[str]:
        """Those of `rows` that are to be held back; not all of `ready`: programs with a call that could run, best first."""
        asked = {row.program_id for row in rows}
        held = policy.held_back(rows, frozenset(self._held & asked), capacity, now)
        others = self._held - asked if ready else set()
        if ready and all(i in held or i in others for i in ready):
            self._num_changes = 1  # the answer will not be the policy's own, so it is to be asked again
            first = {ready[0]}
            held = policy.held_back(rows, held - first, capacity, now)
            if all(i in held or i in others for i in ready):
                held -= first
        return held

    def _settle(self, rows: Sequence[ProgramRow], held: frozenset[str]) -> list[str]:
        """Take over the answer; returns whom it changes something for."""
        changed = []
        for row in rows:
            program_id = row.program_id
            if (program_id in held) == (program_id in self._held):
                continue
            changed.append(program_id)
            if program_id in held:
                self._held.add(program_id)
                del self._open[program_id]
                self.num_held_back += 1
                self.num_displaced += row.has_been_served
            else:
                self._held.discard(program_id)
                self._open[program_id] = None
                self.num_let_go += 1
        return changed

    def validate(self) -> None:
        """Check that every program that is here is either held back or not; raises InvalidTransition."""
        if self._held | self._open.keys() != self._latest.keys() or self._held & self._open.keys():
            raise InvalidTransition("holding is inconsistent: a program that is both held back and not, or neither")
