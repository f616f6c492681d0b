"""One engine's queue of calls: levels, quanta, demotion, promotion and batch choice (paper §4.2.2)."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Protocol

from agentix.core.config import SchedulerConfig
from agentix.core.errors import InvalidTransition, UnknownCall
from agentix.core.events import (
    Batch,
    CallAborted,
    CallArrived,
    CallFinished,
    CallMoved,
    CallPreempted,
    CallStarted,
    Event,
    Placed,
    StepCompleted,
)
from agentix.core.policies import make_policy
from agentix.core.policies.base import TOLERANCE_S
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow

_Key = tuple[int, float, int, str]

# Watches of calls that are over are swept once they outnumber the others by this many.
_WATCH_SLACK = 64


class BatchBudget(Protocol):
    """What the engine can hold in one batch: slots, KV blocks, tokens. The shell's knowledge, asked call by call."""

    def take(self, call: CallRow) -> bool:
        """Reserve room for `call`; False (and nothing reserved) if it does not fit."""
        ...


class Slots:
    """A budget of `num_slots` calls and nothing else."""

    def __init__(self, num_slots: int) -> None:
        self._left = num_slots

    def take(self, call: CallRow) -> bool:
        """One slot."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True


@dataclass(slots=True)
class _Entry:
    """A call's place in the queue. `reset_*_s`: what its own W and T were when it was last promoted."""

    key: _Key
    quantum_left_s: float
    reset_waiting_s: float = 0.0
    reset_service_s: float = 0.0
    watched_s: float = math.inf

    @property
    def level(self) -> int:
        return self.key[0]


class Scheduler:
    """Orders the active calls of one engine by a policy over the process table.

    `apply(event)` is the only door: it passes the event to the table (which several schedulers may share), keeps the
    levels, and returns the placements that followed. `choose` and `key` only answer. The shell carries a choice out
    and tells so with CallStarted and CallPreempted. A call is charged by StepCompleted; one that has used up its
    quantum re-enters at the policy's next level. A call of a starving program (W/T >= β) moves to the first level, and
    its own W and T count from zero. CallMoved takes the call out of the queue that holds it, and into one that does not.
    Work per event: O(log n) per call it names (list insertion aside).
    """

    def __init__(self, config: SchedulerConfig, table: ProcessTable) -> None:
        self.table = table
        self.policy = make_policy(config)
        self._beta = config.starvation_ratio
        self._entries: dict[str, _Entry] = {}
        self._order: list[_Key] = []
        self._running: set[str] = set()
        self._num_entries = 0
        self._watch: list[tuple[float, str]] = []
        table.on_totals(self._watch_program)

    def apply(self, event: Event) -> list[Placed]:
        """Take in one event; returns where calls were placed because of it, in the order it happened.

        Raises what `ProcessTable.apply` raises, and UnknownCall for a call of another scheduler; then nothing changed. If
        the policy raises for an arriving call, the call is aborted in the table before the error goes on.
        """
        self._check_held(event)
        self.table.apply(event)
        placed: list[Placed] = []
        match event:
            case CallArrived():
                placed.append(self._arrive(event.call_id, event.now))
            case CallMoved():
                if event.call_id in self._entries:
                    self._remove(event.call_id)
                else:
                    placed.append(self._arrive(event.call_id, event.now))
            case StepCompleted():
                for call_id in event.call_ids:
                    placed.extend(self._charge(call_id, event.duration_s, event.now))
            case CallStarted():
                self._running.add(event.call_id)
            case CallPreempted():
                self._running.discard(event.call_id)
                self._watch_call(*self._look_up(event.call_id))
            case CallFinished() | CallAborted():
                self._remove(event.call_id)
        placed.extend(self._promote_starving(event.now))
        return placed

    def choose(self, now: float, budget: BatchBudget) -> Batch:
        """The batch that should run from `now` on: calls in order until the first that does not fit.

        O(batch · log batch), however many calls wait.
        """
        self.rerank(now)
        run: list[str] = []
        for key in self._order:
            if not budget.take(self.table.calls[key[-1]]):
                break
            run.append(key[-1])
        chosen = set(run)
        return Batch(
            run=tuple(run),
            admit=tuple(c for c in run if c not in self._running),
            preempt=tuple(sorted(self._running - chosen, key=self.key)),
        )

    def rerank(self, now: float) -> bool:
        """Establish the order afresh if the policy's ranks may have changed; returns whether they may. O(n log n)."""
        if self.policy.reranks:
            for call_id, entry in self._entries.items():
                level, _, sequence, _ = entry.key
                entry.key = (level, self.policy.rank(*self._look_up(call_id), now), sequence, call_id)
            self._order = sorted(entry.key for entry in self._entries.values())
        return self.policy.reranks

    def key(self, call_id: str) -> _Key:
        """The call's place in the total order of this queue: (level, rank, entry, id), smaller first."""
        return self._entry(call_id).key

    def level(self, call_id: str) -> int:
        """The call's level, 0 = served first."""
        return self._entry(call_id).level

    @property
    def order(self) -> tuple[str, ...]:
        """Every active call, waiting or running, best first."""
        return tuple(key[-1] for key in self._order)

    def _entry(self, call_id: str) -> _Entry:
        try:
            return self._entries[call_id]
        except KeyError:
            raise UnknownCall(call_id) from None

    def _look_up(self, call_id: str) -> tuple[CallRow, ProgramRow]:
        call = self.table.call(call_id)
        return call, self.table.row(call.program_id)

    def _check_held(self, event: Event) -> None:
        """Raise UnknownCall if the event names a call that should be in this queue and is not."""
        if isinstance(event, StepCompleted):
            for call_id in event.call_ids:
                self._entry(call_id)
        elif isinstance(event, CallStarted | CallPreempted | CallFinished | CallAborted):
            self._entry(event.call_id)

    def _arrive(self, call_id: str, now: float) -> Placed:
        call, row = self._look_up(call_id)
        try:
            return self._enter(call, row, self.policy.level(call, row, now), now, "arrival")
        except Exception:
            self.table.apply(CallAborted(now=now, call_id=call_id, reason="the policy failed", service_s=0.0, waiting_s=0.0))
            raise

    def _enter(self, call: CallRow, row: ProgramRow, level: int, now: float, reason: str) -> Placed:
        """Put the call at the tail of `level` with that level's quantum."""
        old = self._entries.get(call.call_id)
        key = (level, self.policy.rank(call, row, now), self._num_entries + 1, call.call_id)
        entry = _Entry(key, self.policy.quanta_s[level])
        if reason == "starving":
            entry.reset_waiting_s, entry.reset_service_s = call.waiting_s(now), call.service_s
        elif old is not None:
            entry.reset_waiting_s, entry.reset_service_s = old.reset_waiting_s, old.reset_service_s
        if old is not None:
            self._order.pop(bisect_left(self._order, old.key))
        self._num_entries += 1
        self._entries[call.call_id] = entry
        insort(self._order, key)
        self._watch_call(call, row)
        return Placed(call_id=call.call_id, level=level, reason=reason)

    def _remove(self, call_id: str) -> None:
        self._order.pop(bisect_left(self._order, self._entries.pop(call_id).key))
        self._running.discard(call_id)
        self._sweep_watch()

    def _charge(self, call_id: str, service_s: float, now: float) -> list[Placed]:
        entry = self._entries[call_id]
        call, row = self._look_up(call_id)
        entry.quantum_left_s -= service_s
        if entry.level > 0 and self._starves_at(call, row, entry) <= now:
            return [self._enter(call, row, 0, now, "starving")]
        if entry.quantum_left_s <= TOLERANCE_S:
            return [self._enter(call, row, self.policy.after_quantum(entry.level), now, "quantum")]
        return []

    def _starves_at(self, call: CallRow, row: ProgramRow, entry: _Entry) -> float:
        """When (W_p + W_c) / (T_p + T_c) reaches β if the call is not served until then; inf without β."""
        if self._beta is None:
            return math.inf
        program_s, program_waiting_s = (row.service_s, row.waiting_s) if self.policy.starves_by_program else (0.0, 0.0)
        service_s = program_s + call.service_s - entry.reset_service_s
        own_waiting_s = self._beta * service_s - program_waiting_s + entry.reset_waiting_s
        return call.arrived_s + call.service_s + own_waiting_s

    def _watch_call(self, call: CallRow, row: ProgramRow) -> None:
        """Make sure the call is looked at no later than it starves."""
        entry = self._entries[call.call_id]
        if entry.level == 0 or call.running or self._beta is None:
            return
        starves_s = self._starves_at(call, row, entry)
        if starves_s < entry.watched_s:
            entry.watched_s = starves_s
            heapq.heappush(self._watch, (starves_s, call.call_id))
            self._sweep_watch()

    def _sweep_watch(self) -> None:
        if len(self._watch) > 2 * len(self._entries) + _WATCH_SLACK:
            self._watch = [(e.watched_s, i) for i, e in self._entries.items() if e.watched_s < math.inf]
            heapq.heapify(self._watch)

    def _watch_program(self, row: ProgramRow) -> None:
        """The program's totals changed, and with them the moment its waiting calls starve."""
        for call in row.calls.values():
            if call.call_id in self._entries:
                self._watch_call(call, row)

    def _promote_starving(self, now: float) -> list[Placed]:
        placed: list[Placed] = []
        while self._watch and self._watch[0][0] <= now:
            watched_s, call_id = heapq.heappop(self._watch)
            entry = self._entries.get(call_id)
            if entry is None or entry.watched_s != watched_s:
                continue  # over, or watched for an earlier moment since
            entry.watched_s = math.inf
            call, row = self._look_up(call_id)
            if entry.level == 0 or call.running:
                continue
            if self._starves_at(call, row, entry) <= now:
                placed.append(self._enter(call, row, 0, now, "starving"))
            else:
                self._watch_call(call, row)
        return placed

    def _is_watched(self, call_id: str, entry: _Entry) -> bool:
        """Whether the call will be looked at no later than it starves, if that is a thing to look for."""
        if call_id not in self.table.calls:
            return True  # a problem of its own
        call, row = self._look_up(call_id)
        if entry.level == 0 or call.running or self._beta is None:
            return True
        return entry.watched_s <= self._starves_at(call, row, entry) and (entry.watched_s, call_id) in self._watch

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(n²)."""
        keys = sorted(entry.key for entry in self._entries.values())
        num_levels = len(self.policy.quanta_s)
        problems = [
            (keys == self._order, "the order and the entries differ"),
            (all(i == e.key[-1] for i, e in self._entries.items()), "an entry stands under another id"),
            (all(i in self.table.calls for i in self._entries), "a call that is over is still queued"),
            (
                self._running == {i for i in self._entries if i in self.table.calls and self.table.calls[i].running},
                "the running calls differ from the table's",
            ),
            (all(0 <= e.level < num_levels for e in self._entries.values()), "a level that does not exist"),
            (all(e.quantum_left_s > 0 for e in self._entries.values()), "a used-up quantum without a new place"),
            (all(self._is_watched(i, e) for i, e in self._entries.items()), "a call that may starve unnoticed"),
            (len(self._watch) <= 2 * len(self._entries) + _WATCH_SLACK, "watches of calls that are long over"),
        ]
        for holds, message in problems:
            if not holds:
                raise InvalidTransition(f"scheduler is inconsistent: {message}")
