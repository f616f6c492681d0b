"""Calls that are held for a busy engine while another one has a free turn: the balancer is asked again.

A call waits for the engine that was the best when it arrived. Since then an engine may have joined, come back, or run out of
calls of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from agentix.core.balancers import EngineView, LoadBalancer
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.engines import EnginePool, EngineState
from agentix.gateway.place import Place
from agentix.gateway.turns import Turns
from agentix.gateway.weighing import Weighing

_PERIOD_S = 0.1
_MOST_LOOKS = 512  # calls × engines that are weighed at a time: a few milliseconds, in which the gateway does nothing else


class Rebalancing:
    """Moves calls that have not started to engines that have a turn for them at once.

    Calls are looked at in the order in which they would be sent, those of the longest queue first. The balancer is asked as if
    the call arrived now; one for which it names an engine that has a free turn goes there and is sent. One that it would leave
    where it is, say because its context is there and the way costs more than the wait, stays, and the next one is looked at. So
    at most one call moves for each free turn, and none that then waits. An engine that has just joined is no busier than it is:
    the slow start is for calls that have a choice, these have waited. Only the first in line are looked at (`_MOST_LOOKS`).

    A program that was never served has no context anywhere: its home is no reason to stay. O(engines) for each call looked at.
    """

    def __init__(
        self,
        table: ProcessTable,
        pool: EnginePool,
        turns: Turns,
        weighing: Weighing,
        balancer: LoadBalancer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._pool = pool
        self._turns = turns
        self._weighing = weighing
        self._balancer = balancer
        self._clock = clock
        pool.on_change(self._engine_changed)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            self.rebalance(self._clock())

    def rebalance(self, now: float) -> None:
        """Move what may be moved now."""
        queues = [queue for queue in self._turns.queues.values() if queue.num_held > queue.num_asleep]
        free = {i for i in self._pool.states if self._turns.has_free_turn(i)} if queues else set()
        queues.sort(key=lambda queue: queue.num_held, reverse=True)
        num_left = max(1, _MOST_LOOKS // max(1, len(self._pool.states)))
        for queue in queues:
            for place in list(islice(self._turns.standing(queue, now), num_left)) if free else ():
                num_left -= 1
                self._ask(place, free, now)
                if not free:
                    return

    def _engine_changed(self, state: EngineState) -> None:
        if state.takes_calls:
            self.rebalance(self._clock())

    def _ask(self, place: Place, free: set[str], now: float) -> None:
        """Move the call if the balancer would send it to one of the `free` engines; without its last free turn it is none."""
        able = [s for s in self._pool.states.values() if s.takes_calls and place.needs.are_met_by(s)]
        if free.isdisjoint(s.target.engine_id for s in able) or not self._turns.is_within_budget(place, now):
            return
        row = self._without(place)
        views = self._weighing.views([state.view() for state in able])
        engines = [_without_one(e) if e.engine_id == place.engine_id else e for e in views]
        prompt_tokens = place.tokens or None
        route = self._balancer.route(prompt_tokens, row, engines)
        target = route.engine_ids[0]
        if target not in free or self._pool.states[target].limit.ready_at(place.tokens, now) > now:
            return
        self._weighing.routed(row, route, engines, now, prompt_tokens=prompt_tokens)
        before = place.engine_id
        self._turns.transfer(place, target, now, pin=route.pin)
        place.engine_ids = route.engine_ids
        place.why = f"was held for {before}, went to a free turn: {route.reason}"
        self._turns.pump(self._turns.queue(target), now)
        if not self._turns.has_free_turn(target):
            free.discard(target)

    def _without(self, place: Place) -> ProgramRow:
        """The row of the call's program as it would be if the call were only to arrive."""
        row = self._table.row(place.program_id)
        others = dict(row.calls)
        del others[place.key]
        return replace(row, calls=others, home_engine_id=row.home_engine_id if row.has_been_served else None)


def _without_one(engine: EngineView) -> EngineView:
    """The call's own engine as the call would find it there: without itself."""
    num_waiting = engine.num_waiting
    return replace(
        engine, num_calls=engine.num_calls - 1, num_waiting=max(0, num_waiting - 1) if num_waiting is not None else None
    )
