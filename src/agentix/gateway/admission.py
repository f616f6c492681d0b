"""Which call goes to its engine, and when? The gateway holds what an engine has no room for, and sends it in program order."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from agentix.core.errors import InvalidTransition
from agentix.core.events import CallAborted, CallArrived, CallFinished, ProgramWeighted
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.budgets import Budgets
from agentix.gateway.engine_queue import OnDecision
from agentix.gateway.engines import EnginePool, EngineState
from agentix.gateway.errors import HTTPError
from agentix.gateway.fit import Needs
from agentix.gateway.place import Place, Tier
from agentix.gateway.standing import describe_place, describe_queue, retry_after_s
from agentix.gateway.turns import Turns

_TICK_S = 0.1
PAUSED = "paused"


class Admission:
    """The door to all engines: every call stands here from its arrival to its end, and its events come through here alone.

    A call is held while its engine is full or takes none, its program is paused, or somebody is over budget or rate; whose
    turn it is say the `Turns`. One that is in its engine stays there. Where nothing is held an arrival costs a few
    microseconds; otherwise O(tenants + log calls).

    `places`: every call by its id in the table. Moments on the monotonic clock.
    """

    def __init__(
        self,
        table: ProcessTable,
        pool: EnginePool,
        settings: AdmissionSettings,
        budgets: Budgets,
        *,
        on_decision: OnDecision | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.paused: set[str] = set()
        self.turns = Turns(table, pool, settings, budgets, on_decision=on_decision)
        self.places = self.turns.places
        self._table = table
        self._pool = pool
        self._budgets = budgets
        self._clock = clock
        pool.on_change(self._engine_changed)

    def check_room(self, engine_id: str, *, program_id: str = "", tenant: str = "", num_bytes: int = 0) -> None:
        """Raise HTTPError 503 if a call for the engine would have to be held, and there is no room for it (`Held`).

        `num_bytes`: of its body.
        """
        queue, now = self.turns.queue(engine_id), self._clock()
        will_sleep = program_id in self.paused or self._budgets.hold_until(tenant, program_id, now) > now
        nobody_stands = queue.num_held == queue.num_asleep
        goes_at_once = nobody_stands and queue.limit.has_room(queue.num_running) and not will_sleep
        if not goes_at_once and not self.turns.held.has_room(tenant, num_bytes, asleep=will_sleep):
            raise HTTPError.queue_full(retry_after_s(queue, queue.num_held))

    def arrive(
        self,
        event: CallArrived,
        *,
        tenant: str = "",
        needs: Needs | None = None,
        engine_ids: tuple[str, ...],
        num_bytes: int = 0,
        num_answers: int = 1,
        why: str = "",
    ) -> Place:
        """Enter a call for `event.engine_id`, the first of `engine_ids`; it is sent at once if it may be."""
        queue, now = self.turns.queue(event.engine_id), event.now
        place = Place(
            key=event.call_id,
            program_id=event.program_id,
            tenant=tenant,
            needs=needs or Needs(),
            engine_id=event.engine_id,
            engine_ids=engine_ids,
            tokens=event.prompt_tokens or 0,
            num_bytes=num_bytes,
            num_answers=num_answers,
            arrived_s=now,
            why=why,
        )
        queue.enter(place, event)
        self.places[place.key] = place
        self._budgets.arrived(place.key, tenant, place.program_id, place.tokens, now, num_calls=place.num_answers)
        if place.program_id in self.paused:
            queue.sleep(place, PAUSED, math.inf, now)
        self.turns.pump(queue, now)
        if place.sent_s is None:
            place.turn = asyncio.Event()
        return place

    def engines_to_try(self, key: str) -> Iterator[str]:
        """Where a call whose turn it is may go, best first: its engine, those ranked at its arrival, what came since."""
        place = self.places[key]
        yield place.engine_id
        tried = {place.engine_id}
        for engine_id in (*place.engine_ids, *self._pool.states):
            state = self._pool.states.get(engine_id)
            if engine_id not in tried and state is not None and place.needs.are_met_by(state):
                tried.add(engine_id)
                yield engine_id

    def goes_to(self, key: str, engine_id: str, now: float) -> None:
        """The call is tried on this engine now: the one that it was sent to, or another because that one is gone.

        It does not queue there: it has had its turn, and an engine dies seldom.
        """
        place = self.places[key]
        if place.engine_id == engine_id:
            return
        self.turns.ended(place, now, None)
        self.turns.transfer(place, engine_id, now)
        self.turns.moved(place, engine_id, now)

    def may_wait(self, key: str) -> bool:
        """Whether an engine that takes no calls now may take this one before long: it is well, but has failed of late."""
        needs = self.places[key].needs
        return any(s.healthy and not s.draining and needs.are_met_by(s) for s in self._pool.states.values())

    def put_back(self, key: str, now: float, *, retry_after_s: float | None = None) -> None:
        """No engine has taken the call: it is held again, where it stood or for an engine that takes calls.

        It has used nothing of anybody's budget. `retry_after_s`: the engine wants none for so long.
        """
        place = self.places[key]
        queue, state = self.turns.queue(place.engine_id), self._pool.states.get(place.engine_id)
        if retry_after_s is None:
            self.turns.ended(place, now, None)
        elif state is not None:
            state.limit.refused(retry_after_s, now)
        queue.put_back(place, now)
        self._budgets.put_back(key, now)
        self._wake_program(place.program_id, now)
        place.turn = asyncio.Event()
        if place.program_id in self.paused:
            queue.sleep(place, PAUSED, math.inf, now)
        if state is None or not state.takes_calls:
            self._move(place, now)
        self.turns.pump_all(now)

    def refused(self, key: str, now: float) -> None:
        """The engine has answered that it is too busy, and the client is told so."""
        queue = self.turns.queue(self.places[key].engine_id)
        queue.limit.refused(queue.num_running - 1, now)

    def times(self, key: str, now: float) -> tuple[float, float]:
        """For how long the call was held, and for how long it has been in its engine, in seconds."""
        place = self.places[key]
        sent_s = now if place.sent_s is None else place.sent_s
        return sent_s - place.arrived_s, now - sent_s

    def priority(self, key: str) -> int | None:
        """What to send as vLLM's priority; None where the engine does not order by it."""
        place = self.places[key]
        return place.level if self.turns.queue(place.engine_id).tier is Tier.PRIORITY else None

    def over(self, event: CallFinished | CallAborted, *, num_tokens: int | None = None) -> None:
        """The call is over. `num_tokens`: all that it took, if the engine has counted."""
        place, now = self.places[event.call_id], event.now
        queue = self.turns.queue(place.engine_id)
        self.turns.ended(place, now, num_tokens)
        queue.leave(place, event)
        del self.places[place.key]
        if isinstance(event, CallFinished):
            queue.limit.finished()
        self._budgets.over(place.key, service_s=event.service_s or 0.0, tokens=num_tokens, now=now)
        self._wake_program(place.program_id, now)
        self.turns.forget_if_gone(place.engine_id)
        self.turns.pump_all(now)

    def pause(self, program_id: str, now: float) -> None:
        """Hold the program's calls that are not in an engine yet, and those that come."""
        self.paused.add(program_id)
        for place in self._held_of(program_id):
            if place.asleep:
                place.asleep, place.wake_s = PAUSED, math.inf
            else:
                self.turns.queue(place.engine_id).sleep(place, PAUSED, math.inf, now)

    def resume(self, program_id: str, now: float) -> None:
        """Let the program's calls go again, placed by what its service is by now."""
        self.paused.discard(program_id)
        self._wake_program(program_id, now)
        self.turns.pump_all(now)

    def weigh(self, program_id: str, weight: float, now: float) -> None:
        """Give the program a weight, and its calls that are held the place that goes with it."""
        self._table.apply(ProgramWeighted(now=now, program_id=program_id, weight=weight))
        for place in self._held_of(program_id):
            if not place.asleep:
                queue = self.turns.queue(place.engine_id)
                queue.sleep(place, "weighed", math.inf, now)
                queue.wake(place, now)

    def program_over(self, row: ProgramRow) -> None:
        """A program that is over is not paused any more."""
        self.paused.discard(row.program_id)

    def describe(self, key: str) -> dict[str, Any]:
        """Where a call stands, for people; {} if it is over."""
        place = self.places.get(key)
        if place is None:
            return {}
        return describe_place(self.turns.queue(place.engine_id), place)

    def retry_after_s(self, place: Place) -> int:
        """When a client may try again whose call was held for too long: when those before it are likely to be gone."""
        queue = self.turns.queue(place.engine_id)
        return retry_after_s(queue, queue.position(place) or queue.num_held)

    def describe_engine(self, engine_id: str) -> dict[str, Any]:
        """How calls to an engine are held, for people."""
        return describe_queue(self.turns.queue(engine_id))

    async def run(self) -> None:
        """See for ever what may go by now."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.turns.tick(self._clock())

    def pump(self) -> None:
        """There may be more room now."""
        self.turns.pump_all(self._clock())

    def _wake_program(self, program_id: str, now: float) -> None:
        """Its calls that are asleep are placed anew, unless it is paused."""
        if program_id not in self.paused:
            for place in self._held_of(program_id):
                if place.asleep:
                    self.turns.queue(place.engine_id).wake(place, now)

    def _held_of(self, program_id: str) -> list[Place]:
        row = self._table.rows.get(program_id)
        places: Iterable[Place | None] = map(self.places.get, row.calls) if row is not None else ()
        return [place for place in places if place is not None and place.sent_s is None]

    def _engine_changed(self, state: EngineState) -> None:
        """An engine takes calls again, or none any more: calls that are held for one that takes none go to one that does."""
        now = self._clock()
        self.turns.renew(state)
        for place in [p for p in self.places.values() if p.sent_s is None]:
            at = self._pool.states.get(place.engine_id)
            if at is None and place.needs.engine_id == place.engine_id:
                place.needs = replace(place.needs, engine_id=None)  # what it goes on from is gone: any other will say so
            if at is None or not at.takes_calls:
                self._move(place, now)
        self.turns.forget_if_gone(state.target.engine_id)
        self.turns.pump_all(now)

    def _move(self, place: Place, now: float) -> None:
        """Hold the call for the least busy of the engines that take calls and that it may go to, if there is one."""
        able = [i for i, s in self._pool.states.items() if s.takes_calls and place.needs.are_met_by(s)]
        if not able:
            return
        target = min(map(self.turns.queue, able), key=lambda queue: queue.num_held + queue.num_running)
        asleep, wake_s = place.asleep, place.wake_s
        self.turns.transfer(place, target.engine_id, now)
        place.why = "its engine takes no calls any more"
        if asleep:
            target.sleep(place, asleep, wake_s, now)

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(calls²)."""
        self.turns.validate()
        for engine_id, queue in self.turns.queues.items():
            places = [p for p in self.places.values() if p.engine_id == engine_id]
            num_held = sum(p.sent_s is None for p in places)
            if (queue.num_held, queue.num_running) != (num_held, len(places) - num_held):
                raise InvalidTransition(f"queue {engine_id!r} has lost count: {queue.num_held}, {queue.num_running}")
        if self.places.keys() != self._table.calls.keys():
            raise InvalidTransition("the admission and the table know different calls")
