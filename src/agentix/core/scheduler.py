"""One engine's queue of calls: levels, quanta, demotion, promotion and batch choice (paper §4.2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import takewhile

from agentix.core.budget import BatchBudget
from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.entry import Entry, Key
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
from agentix.core.holding import Holding
from agentix.core.order import Order
from agentix.core.policies import make_policy
from agentix.core.policies.base import TOLERANCE_S
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow
from agentix.core.starvation import Starvation, top_level

_OF_A_CALL_HERE = (CallStarted, CallPreempted, CallFinished, CallAborted)


class Scheduler:
    """Orders the active calls of one engine by a policy over the process table.

    `apply(event)` is the only door: it passes the event to the table (which several schedulers may share), keeps the
    levels, and returns the placements that followed. `choose` and `key` only answer. The shell carries a choice out
    and tells so with CallStarted and CallPreempted. A call is charged by StepCompleted; one that has used up its
    quantum re-enters at the policy's next level. A call of a starving program (W/T >= β) moves to the first level, and
    its own W and T count from zero. CallMoved takes the call out of the queue that holds it, and into one that does not.
    Work per event: O(log n) per call it names (and see `SortedKeys`).

    For policies that hold programs back: `capacity` is what the engine holds (None: unknown, nothing is
    held back), and `is_ready` tells whether a waiting call waits for its turn alone, so that it would run if it were let.
    `on_refiled` is told each waiting call whose program is held back, or let go, from now on.
    `keeps_running`: the shell takes no running call off, whatever the policy would; then running calls stand first.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        table: ProcessTable,
        *,
        capacity: EngineCapacity | None = None,
        is_ready: Callable[[str], bool] = lambda _: True,
        keeps_running: bool = False,
        on_refiled: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.table = table
        self.policy = make_policy(config)
        self._keeps_running = keeps_running or not self.policy.preempts
        self._on_refiled = on_refiled
        self._running_first = config.running_first
        self._weighs_evictions = config.weigh_evictions
        self._weights = dict(config.class_weights)
        self._entries: dict[str, Entry] = {}
        self.holding = Holding(capacity if self.policy.holds_programs else None, is_ready, self._entries.__contains__)
        self._order = Order()
        self._running: set[str] = set()
        self._num_entries = 0
        self._starvation = Starvation(
            table,
            self._entries,
            beta=config.starvation_ratio,
            by_program=self.policy.starves_by_program,
            due_s=self.policy.due_s,
        )

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
                placed.extend(self._charge(event))
            case CallStarted():
                self._reposition(event.call_id, runs=True)
            case CallPreempted():
                self._reposition(event.call_id, runs=False)
                call, row = self._look_up(event.call_id)
                self._entries[event.call_id].due_s = self.policy.due_s(call, row, event.now)
                self._starvation.watch(call, row)
            case CallFinished() | CallAborted():
                self._remove(event.call_id)
        for call, row in self._starvation.due(event.now):
            placed.append(self._enter(call, row, top_level(call), event.now, "starving"))
        return placed

    def choose(self, now: float | None, budget: BatchBudget) -> Batch:
        """The batch that should run from `now` on, with what has to change for it: see `select`."""
        run = self.select(now, budget)
        chosen = set(run)
        return Batch(
            run=tuple(run),
            admit=tuple([c for c in run if c not in self._running]),
            preempt=tuple(sorted(self._running - chosen, key=self.key)),
        )

    def select(self, now: float | None, budget: BatchBudget) -> list[str]:
        """The calls that should run from `now` on: calls in order until the first that does not fit.

        Waiting calls of programs that are held back are passed over. None: as of the last `rerank` and `hold_back`. O(batch ·
        log batch), however many calls wait, unless the policy reranks or holds programs.
        """
        self._look_afresh(now)
        passing = map(self.table.calls.__getitem__, self._order.passing())
        return [call.call_id for call in takewhile(budget.take, passing)]

    def contenders(self, now: float | None) -> Iterator[str]:
        """The waiting calls that may be in the batch from `now` on, best first: those that `select` would not pass over.

        None: as of the last `rerank` and `hold_back`. O(1) for each that is asked for, however many run or are held back.
        """
        self._look_afresh(now)
        return self._order.contenders()

    def _look_afresh(self, now: float | None) -> None:
        if now is not None:
            self.rerank(now)
            self.hold_back(now)

    def running_worst_first(self) -> Iterator[str]:
        """The calls that run, the one that would give way first ahead."""
        return self._order.running_worst_first()

    def rerank(self, now: float) -> bool:
        """Establish the order afresh if the policy's ranks may have changed; returns whether they may. O(n log n)."""
        if self.policy.reranks:
            ranks = self.policy.ranks([self._look_up(call_id) for call_id in self._entries], now)
            for entry, rank in zip(self._entries.values(), ranks, strict=True):
                entry.rank = rank
                entry.key = self._key_of(self.table.calls[entry.key[-1]], entry, entry.key[2])
            self._order.rebuild((entry.key for entry in self._entries.values()), self._running, self._held())
        return self.policy.reranks

    def hold_back(self, now: float) -> None:
        """Establish afresh which programs are held back, as `choose` does. O(programs) if the policy holds any."""
        active = map(self.table.calls.__getitem__, self._order)
        for program_id in self.holding.decide(self.policy, self.table, active, idle=not self._running, now=now):
            for call_id in self.table.row(program_id).calls:
                if call_id in self._entries and call_id not in self._running:
                    self._reposition(call_id, runs=False)
                    self._on_refiled(call_id)

    def steady_until(self, now: float) -> float:
        """Until when the order is sure to stay as it is, if all that happens is that the running calls are served.

        No quantum is used up before that and no call starves, even if the device waits in between; a shell may play steps
        up to it as one. O(running).
        """
        if self.policy.reranks:
            return now
        quantum_s, safe_until_s = math.inf, self._starvation.next_s
        for call_id in self._running:
            entry = self._entries[call_id]
            if entry.safe_until_s <= now and self._starvation.reaches(entry, call_id, now):
                return now
            quantum_s = min(quantum_s, entry.quantum_left_s)
            safe_until_s = min(safe_until_s, entry.safe_until_s)
        return min(now + quantum_s - TOLERANCE_S, safe_until_s)

    def key(self, call_id: str) -> Key:
        """The call's place in the total order of this queue: (level, rank, entry, id), smaller first.

        A running call that is kept (`keeps_running`, or a policy that never preempts) stands at level -1: before every call
        that waits.
        """
        try:
            return self._entries[call_id].key
        except KeyError:
            raise UnknownCall(call_id) from None

    def level(self, call_id: str) -> int:
        """The call's level, 0 = served first."""
        return self._entry(call_id).level

    def first_waiting(self, now: float) -> str | None:
        """The waiting call whose turn it is; None: none waits. O(log n) unless the policy reranks."""
        self.rerank(now)
        return next(self._order.waiting(), None)

    def position(self, call_id: str) -> int:
        """How many calls of this queue, running ones among them, stand before the call. O(log n)."""
        return self._order.position(self._entry(call_id).key)

    def is_worth(self, call_id: str, victims: Iterable[str], cost_s: float) -> bool:
        """Whether the call, which has no KV, may take that of the victims, which costs so much time to compute again."""
        if not self._weighs_evictions:
            return True
        entries = (self._entry(victim) for victim in victims)
        return self._entry(call_id).is_worth(cost_s, entries, running_first=self._running_first)

    @property
    def running(self) -> Set[str]:
        """The calls that run; read-only."""
        return self._running

    @property
    def num_waiting(self) -> int:
        """How many calls wait."""
        return len(self._order) - len(self._running)

    @property
    def order(self) -> tuple[str, ...]:
        """Every active call, waiting or running, best first."""
        return tuple(self._order)

    def _entry(self, call_id: str) -> Entry:
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
            if not all(map(self._entries.__contains__, event.call_ids)):
                raise UnknownCall(next(call_id for call_id in event.call_ids if call_id not in self._entries))
        elif isinstance(event, _OF_A_CALL_HERE):
            self._entry(event.call_id)

    def _arrive(self, call_id: str, now: float) -> Placed:
        call, row = self._look_up(call_id)
        self.holding.arrived(row)
        try:
            level = self.policy.level(call, row, now) + call.priority
            return self._enter(call, row, min(max(0, level), len(self.policy.quanta_s) - 1), now, "arrival")
        except Exception:
            self.table.apply(CallAborted(now=now, call_id=call_id, reason="the policy failed", service_s=0.0, waiting_s=0.0))
            raise

    def _enter(self, call: CallRow, row: ProgramRow, level: int, now: float, reason: str) -> Placed:
        """Put the call at the tail of `level` with that level's quantum."""
        old = self._entries.get(call.call_id)
        quantum_s = self.policy.quanta_s[level] * self._weights.get(row.program_class, 1.0) * row.weight
        entry = Entry((0, 0.0, 0, ""), level, self.policy.rank(call, row, now), quantum_s)
        entry.key = key = self._key_of(call, entry, self._num_entries + 1)
        entry.due_s = self.policy.due_s(call, row, now)
        entry.is_promoted = reason == "starving" and entry.due_s is None
        if reason == "starving":
            entry.reset_waiting_s, entry.reset_service_s = call.waiting_s(now), call.service_s
        elif old is not None:
            entry.reset_waiting_s, entry.reset_service_s = old.reset_waiting_s, old.reset_service_s
        runs = call.call_id in self._running
        if old is not None:
            self._order.take(old.key)
        self._num_entries += 1
        self._entries[call.call_id] = entry
        self._order.put(key, runs=runs, is_held=not self.holding.passes(call))
        self._starvation.forget(call.call_id)  # what was noted held for the place before
        self._starvation.watch(call, row)
        return Placed(call_id=call.call_id, level=level, reason=reason)

    def _key_of(self, call: CallRow, entry: Entry, sequence: int) -> Key:
        """The call's place: a running one stands before all that wait, or before those of its level, if so wanted."""
        level = -1 if call.running and self._keeps_running else entry.level
        rank = -math.inf if call.running and self._running_first else entry.rank
        return (level, rank, sequence, call.call_id)

    def _reposition(self, call_id: str, *, runs: bool) -> None:
        """The call has started or stopped running, which may be a change of place."""
        entry, call = self._entries[call_id], self.table.calls[call_id]
        self._order.take(entry.key)
        (self._running.add if runs else self._running.discard)(call_id)
        entry.key = self._key_of(call, entry, entry.key[2])
        self._order.put(entry.key, runs=runs, is_held=not self.holding.passes(call))

    def _remove(self, call_id: str) -> None:
        self.holding.left()
        self._order.take(self._entries.pop(call_id).key)
        self._running.discard(call_id)
        self._starvation.forget(call_id)

    def _held(self) -> set[str]:
        """The calls that are held back. O(n)."""
        return {call_id for call_id in self._entries if not self.holding.passes(self.table.calls[call_id])}

    def _charge(self, step: StepCompleted) -> Iterator[Placed]:
        """Take the step off the quanta of its calls; those that starve or have used up theirs get another place."""
        now, duration_s = step.now, step.duration_s
        for entry in map(self._entries.__getitem__, step.call_ids):
            entry.quantum_left_s -= duration_s
            if entry.safe_until_s <= now and self._starvation.reaches(entry, entry.call_id, now):
                call, row = self._look_up(entry.call_id)
                yield self._enter(call, row, top_level(call), now, "starving")
            elif entry.quantum_left_s <= TOLERANCE_S:
                call, row = self._look_up(entry.call_id)
                yield self._enter(call, row, self.policy.after_quantum(entry.level, call, row, now), now, "quantum")

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(n²)."""
        num_levels = len(self.policy.quanta_s)
        problems = [
            (all(i == e.key[-1] for i, e in self._entries.items()), "an entry stands under another id"),
            (all(i in self.table.calls for i in self._entries), "a call that is over is still queued"),
            (
                self._running == {i for i in self._entries if i in self.table.calls and self.table.calls[i].running},
                "the running calls differ from the table's",
            ),
            (all(0 <= e.level < num_levels for e in self._entries.values()), "a level that does not exist"),
            (all(e.quantum_left_s > 0 for e in self._entries.values()), "a used-up quantum without a new place"),
            (all(map(self._starvation.covers, self._entries)), "a call that may starve unnoticed"),
        ]
        for holds, message in problems:
            if not holds:
                raise InvalidTransition(f"scheduler is inconsistent: {message}")
        self._order.validate((entry.key for entry in self._entries.values()), self._running, self._held())
        self.holding.validate()
        self._starvation.validate()
