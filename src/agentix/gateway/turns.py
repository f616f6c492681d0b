"""Whose turn is it? Sends the calls that are held, as engines, rates and budgets have room for them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator

from agentix.core.events import CallMoved
from agentix.core.fair_share import FairShare
from agentix.core.process_table import ProcessTable
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.budgets import Budgets
from agentix.gateway.concurrency import Concurrency
from agentix.gateway.engine_queue import EngineQueue, OnDecision
from agentix.gateway.engines import EnginePool, EngineState
from agentix.gateway.held import Held
from agentix.gateway.place import Place, Tier

_CHARGE_S = 0.5
_FIRST_TURNS = 16  # as many as the first limit of an engine that tells its load
_PLUGIN_CALLS = 4096.0  # in one engine at a time: what it would not run for long may as well wait here


class Turns:
    """The queues of all engines, and what moves them.

    The next call of an engine is that of the tenant whose turn it is (`FairShare`), and of that tenant's the first in the
    policy's order. The engine must take calls, have room (`Concurrency`) and rate (`EngineLimit`) for it, and the tenant be
    within its budget. A call whose program is over budget goes to sleep; so nobody stands behind one that may not go.

    `places`: every call by its id in the table; the admission's to fill.
    """

    def __init__(
        self,
        table: ProcessTable,
        pool: EnginePool,
        settings: AdmissionSettings,
        budgets: Budgets,
        *,
        on_decision: OnDecision | None = None,
    ) -> None:
        self.places: dict[str, Place] = {}
        self.queues: dict[str, EngineQueue] = {}
        self.held = Held(settings.max_queue, settings.max_queue_bytes)
        self._table = table
        self._pool = pool
        self._settings = settings
        self._budgets = budgets
        self._on_decision = on_decision
        self._shares = FairShare()
        self._sleepers: list[tuple[float, str]] = []  # calls that wake at a certain moment, and some that no longer do
        self._charged_s = 0.0

    def queue(self, engine_id: str) -> EngineQueue:
        """The queue of an engine."""
        if engine_id not in self.queues:
            state = self._pool.states.get(engine_id)
            tier = self._tier(state)
            self.queues[engine_id] = EngineQueue(
                engine_id,
                self._table,
                self._settings.scheduler,
                self._shares,
                self.held,
                state=state,
                limit=self._limit(tier),
                tier=tier,
                weight_of=self._budgets.tenant_weight,
                on_decision=self._on_decision,
            )
        return self.queues[engine_id]

    def renew(self, state: EngineState) -> None:
        """If the engine has taken the place of another one of its id, whose calls still wait, forget what that one could do."""
        queue = self.queues.get(state.target.engine_id)
        if queue is not None and queue.state is not state and self._pool.states.get(queue.engine_id) is state:
            queue.state, queue.tier = state, self._tier(state)
            queue.limit = self._limit(queue.tier)

    def _tier(self, state: EngineState | None) -> Tier:
        if self._settings.tier != "auto":
            return Tier(int(self._settings.tier))
        return Tier.PLUGIN if state is not None and state.target.plugin else Tier.ANY

    def _limit(self, tier: Tier) -> Concurrency:
        return Concurrency(self._settings.max_concurrency or (_PLUGIN_CALLS if tier is Tier.PLUGIN else None))

    def watched(self) -> Iterable[tuple[str, EngineQueue]]:
        """The engines that may be asked for their load, with their URLs: not those of somebody else's API."""
        return [
            (state.target.url, self.queue(engine_id))
            for engine_id, state in self._pool.states.items()
            if state.target.hosted is None and state.healthy
        ]

    def tick(self, now: float) -> None:
        """See what may go by now, though nothing has happened; charge the calls in engines what they take."""
        if now - self._charged_s >= _CHARGE_S:
            self._charged_s = now
            for queue in self.queues.values():
                queue.charge(now, self._sent_s)
        while self._sleepers and self._sleepers[0][0] <= now:
            wake_s, key = heapq.heappop(self._sleepers)
            place = self.places.get(key)
            if place is not None and place.asleep and place.wake_s == wake_s:
                self.queue(place.engine_id).wake(place, now)
        self.pump_all(now)

    def pump_all(self, now: float) -> None:
        """Send what may go, at every engine."""
        for queue in self.queues.values():
            if queue.num_held:
                self.pump(queue, now)

    def pump(self, queue: EngineQueue, now: float) -> None:
        """Send what may go to the engine, in order; what keeps the rest is `queue.blocked`."""
        state = self._pool.states.get(queue.engine_id)
        over_budget: set[str] = set()
        queue.blocked = ""
        while queue.num_held > queue.num_asleep:
            queue.blocked = self._why_full(queue, state)
            if queue.blocked or state is None:
                return
            tenants = [t for t in queue.waiting_tenants() if t not in over_budget]
            if not tenants:
                break
            tenant = tenants[0] if len(tenants) == 1 else self._shares.turn(tenants, now)
            if self._budgets.hold_until(tenant, "", now) > now:
                over_budget.add(tenant)
                continue
            place = self.places[queue.first(tenant, now)]
            wake_s = self._budgets.hold_until(tenant, place.program_id, now)
            if wake_s > now:
                self._sleep(queue, place, wake_s, now)
            elif state.limit.ready_at(place.tokens, now) > now:
                queue.blocked = "the engine's rate limit is reached"
                return
            else:
                queue.start(place, now)
                queue.probe = place if state.on_trial else None
                self._budgets.sent(place.key, now)
                state.limit.sent(place.tokens, now)
        if over_budget:
            queue.blocked = "its tenant is over budget"

    def has_free_turn(self, engine_id: str) -> bool:
        """Whether one more call may go to the engine, and none that is held for it is there to have that turn.

        An engine whose limit is not known yet is taken to have _FIRST_TURNS, or all that wait would go there at once.
        """
        queue = self.queue(engine_id)
        if queue.num_held > queue.num_asleep or (math.isinf(queue.limit.limit) and queue.num_running >= _FIRST_TURNS):
            return False
        return not self._why_full(queue, self._pool.states.get(engine_id))

    def standing(self, queue: EngineQueue, now: float) -> Iterator[Place]:
        """The calls that are held for the engine and only wait for their turn there: tenant by tenant, best first."""
        tenants = queue.waiting_tenants()
        while tenants:
            tenant = self._shares.turn(tenants, now)
            tenants.remove(tenant)
            for key in queue.waiting(tenant, now):
                if self.is_within_budget(self.places[key], now):
                    yield self.places[key]

    def is_within_budget(self, place: Place, now: float) -> bool:
        """Whether the call's tenant and program may have one more call sent."""
        return self._budgets.hold_until(place.tenant, place.program_id, now) <= now

    def transfer(self, place: Place, engine_id: str, now: float, *, pin: bool | None = None) -> None:
        """The call is held for this engine from now on. `pin`: whether it is its program's home then (`CallMoved`)."""
        before, moved = place.engine_id, CallMoved(now=now, call_id=place.key, engine_id=engine_id, pin=pin)
        self.queue(before).leave(place, moved)
        self.queue(engine_id).enter(place, moved)
        self.forget_if_gone(before)

    def forget_if_gone(self, engine_id: str) -> None:
        """An engine that has been removed has no queue once no call of it is left."""
        queue = self.queues.get(engine_id)
        if engine_id not in self._pool.states and queue is not None and not queue.num_held + queue.num_running:
            del self.queues[engine_id]

    def moved(self, place: Place, engine_id: str, now: float) -> None:
        """A call that is in its engine, but is not to be there, is in this one now."""
        queue = self.queue(engine_id)
        queue.start(place, now)
        if (state := self._pool.states.get(engine_id)) is not None:
            state.limit.sent(place.tokens, now)

    def ended(self, place: Place, now: float, num_tokens: int | None) -> None:
        """A call is in its engine no more, if it ever was. `num_tokens`: all that it took; None: nobody has counted."""
        state = self._pool.states.get(place.engine_id)
        if state is not None and place.sent_s is not None:
            state.limit.ended(now, estimated=place.tokens, used=num_tokens)

    def _sleep(self, queue: EngineQueue, place: Place, wake_s: float, now: float) -> None:
        until = "until one of its calls is over" if math.isinf(wake_s) else f"for {wake_s - now:.0f} s"
        queue.sleep(place, f"its program is over budget {until}", wake_s, now)
        if wake_s < math.inf:
            heapq.heappush(self._sleepers, (wake_s, place.key))

    def _sent_s(self, key: str) -> float:
        sent_s = self.places[key].sent_s
        return math.inf if sent_s is None else sent_s

    def _why_full(self, queue: EngineQueue, state: EngineState | None) -> str:
        """Why the engine gets no call at all now; "": it may get one."""
        if state is None or not state.takes_calls:
            return "the engine takes no calls"
        if not queue.limit.has_room(queue.num_running):
            return f"limit {math.floor(queue.limit.limit)} in use"
        if state.on_trial and self._is_in(queue, queue.probe):  # on its way: the breaker has not seen it yet
            return "one call tries whether the engine is well"
        return ""

    def _is_in(self, queue: EngineQueue, place: Place | None) -> bool:
        """Whether a call that was sent to the engine is there, or on its way."""
        if place is None or place.sent_s is None or place.engine_id != queue.engine_id:
            return False
        return self.places.get(place.key) is place

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(calls²)."""
        self.held.validate(place for place in self.places.values() if place.sent_s is None)
        self._shares.validate()
        for queue in self.queues.values():
            queue.validate()
