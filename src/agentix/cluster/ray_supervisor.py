"""Keeps as many engines as the work asks for: starts what dies again, adds and removes by load, drains what is to go."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from agentix.cluster.ray_load import read_load
from agentix.cluster.ray_scaling import Trend, decide
from agentix.cluster.ray_settings import RaySettings
from agentix.core.errors import AgentixError
from agentix.gateway.admission import Admission
from agentix.gateway.config import EngineTarget
from agentix.gateway.engines import EnginePool, EngineState
from agentix.gateway.exchange import Exchange

logger = logging.getLogger(__name__)

_WATCH_S = 0.5
_STEADY_S = 60.0  # an engine that has lived for so long was not broken from the start
_MAX_DELAY_S = 60.0


class Engine(Protocol):
    """An engine that serves at `url`, wherever that is."""

    @property
    def engine_id(self) -> str:
        """Its id."""
        ...

    @property
    def url(self) -> str:
        """Its address, without a path."""
        ...

    async def died(self) -> str:
        """Why it is dead, as soon as it is."""
        ...

    async def stop(self) -> None:
        """End it. Idempotent."""
        ...


class Engines(Protocol):
    """Where engines come from."""

    async def start(self, number: int) -> Engine:
        """`engine-number`, once it is healthy. Raises AgentixError."""
        ...


@dataclass(slots=True, eq=False)
class _Slot:
    """A place for one engine: one after the other lives in it, until none is wanted there any more.

    number        of its engine now, or of the last one
    engine        None: it is being started, or will be
    num_failures  in a row
    """

    number: int
    engine: Engine | None = None
    num_failures: int = 0
    is_leaving: bool = False
    life: asyncio.Task[None] | None = None


class Supervisor:
    """The engines of one gateway, from their start to the gateway's end.

    An engine has the smallest number that is free, so that ids do not grow without bound; the gateway forgets the one that
    is gone before it gets to know another of that name. One that an operator removes (`agentix engines remove`) is stopped,
    and another one is started in its place.
    """

    def __init__(
        self,
        engines: Engines,
        settings: RaySettings,
        *,
        target_for: Callable[[Engine], EngineTarget],
        period_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engines = engines
        self._settings = settings
        self._target_for = target_for
        self._period_s = period_s
        self._clock = clock
        self._slots: list[_Slot] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def targets(self) -> tuple[EngineTarget, ...]:
        """The engines that serve now."""
        return tuple(self._target_for(slot.engine) for slot in self._slots if slot.engine is not None)

    async def open(self) -> None:
        """Start as many engines as there are at least, all at once. All or nothing: raises the first error."""
        self._slots = [_Slot(number) for number in range(self._settings.scaling.min_engines)]
        starts = [asyncio.create_task(self._start(slot)) for slot in self._slots]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.wait(starts)
            await self.close()
            raise

    async def close(self) -> None:
        """Stop all engines that are left."""
        engines = [slot.engine for slot in self._slots if slot.engine is not None]
        self._slots.clear()
        await asyncio.gather(*(engine.stop() for engine in engines))

    @asynccontextmanager
    async def beside(self, exchange: Exchange) -> AsyncIterator[None]:
        """Keep this gateway's engines as they should be while the block lasts; they are stopped at its end."""
        self._task = asyncio.create_task(self._run(exchange.pool, exchange.admission))
        try:
            yield
        finally:
            self._task.cancel()
            await asyncio.wait({self._task})

    def check(self) -> None:
        """Raise what has ended the supervision, should anything have: there are no engines any more then."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def _run(self, pool: EnginePool, admission: Admission) -> None:
        async with asyncio.TaskGroup() as group:
            for slot in self._slots:
                slot.life = group.create_task(self._live(slot, pool))
            trend = Trend()
            while True:
                await asyncio.sleep(self._period_s)
                staying = [slot for slot in self._slots if not slot.is_leaving]
                load = read_load(
                    pool,
                    admission,
                    {_engine_id(slot.number) for slot in self._slots},
                    num_engines=len(staying),
                    num_starting=sum(slot.engine is None and not slot.num_failures for slot in staying),
                    now=self._clock(),
                )
                wanted, trend = decide(load, trend, self._settings.scaling, self._clock())
                if wanted != len(staying):
                    logger.info("%d engines instead of %d: %s", wanted, len(staying), load)
                for _ in range(wanted - len(staying)):
                    slot = _Slot(self._free_number(pool))
                    self._slots.append(slot)
                    slot.life = group.create_task(self._live(slot, pool))
                for slot in sorted(staying, key=lambda slot: _num_calls(slot, pool))[: max(0, len(staying) - wanted)]:
                    self._let_go(slot, pool)

    async def _live(self, slot: _Slot, pool: EnginePool) -> None:
        """One engine after the other; when one is gone, the next is started after a while, which grows while they fail."""
        try:
            while not slot.is_leaving:
                began_s = self._clock()
                try:
                    if slot.engine is None:
                        slot.number = self._free_number(pool, slot)
                        await self._start(slot)
                    why = await self._serve(slot, pool)
                except AgentixError as error:
                    why = str(error)
                if not slot.is_leaving:
                    slot.num_failures = 1 if self._clock() - began_s >= _STEADY_S else slot.num_failures + 1
                    delay_s = restart_delay_s(slot.num_failures)
                    logger.warning("%s is gone; another is started in %.0f s: %s", _engine_id(slot.number), delay_s, why)
                    await asyncio.sleep(delay_s)
        finally:
            self._slots.remove(slot)

    async def _start(self, slot: _Slot) -> None:
        slot.engine = await self._engines.start(slot.number)
        logger.info("%s serves at %s", slot.engine.engine_id, slot.engine.url)

    async def _serve(self, slot: _Slot, pool: EnginePool) -> str:
        """Have the gateway send it calls until it is dead, or the gateway has let go of it; gives the reason."""
        engine = slot.engine
        assert engine is not None  # noqa: S101 - `_live` has started it
        died = asyncio.ensure_future(engine.died())
        state = pool.states.get(engine.engine_id)  # the first ones are there
        try:
            if state is None:
                state = pool.add(self._target_for(engine))
                await pool.read_models(state)
            while pool.states.get(engine.engine_id) is state:
                done, _ = await asyncio.wait({died}, timeout=_WATCH_S)
                if done:
                    return died.result()
            return "it was removed"
        finally:
            died.cancel()
            slot.engine = None
            if state is not None:
                _cut_off(state, pool)
            await asyncio.shield(engine.stop())

    def _let_go(self, slot: _Slot, pool: EnginePool) -> None:
        """It gets no more calls, and is stopped when its last one is over: programs at home there move at their next call."""
        slot.is_leaving = True
        state = pool.states.get(slot.engine.engine_id) if slot.engine is not None else None
        if state is not None:
            pool.remove(state)
            asyncio.get_running_loop().call_later(self._settings.drain_s, _cut_off, state, pool)
        elif slot.life is not None:
            slot.life.cancel()

    def _free_number(self, pool: EnginePool, slot: _Slot | None = None) -> int:
        taken = {other.number for other in self._slots if other is not slot}
        return next(n for n in count() if n not in taken and _engine_id(n) not in pool.states)


def restart_delay_s(num_failures: int) -> float:
    """How long to wait before the next start, after so many failures in a row: 1, 2, 4, … at most 60 seconds."""
    return min(_MAX_DELAY_S, 2.0 ** min(num_failures - 1, 10))


def _engine_id(number: int) -> str:
    return f"engine-{number}"


def _num_calls(slot: _Slot, pool: EnginePool) -> int:
    """How much is lost if it goes: less than nothing if it does not serve yet."""
    state = pool.states.get(_engine_id(slot.number))
    return -1 if slot.engine is None or state is None else state.num_calls


def _cut_off(state: EngineState, pool: EnginePool) -> None:
    """Have the gateway forget an engine, if it has not yet; calls without an answer move to others."""
    if pool.states.get(state.target.engine_id) is state:
        pool.remove(state, now=True)
