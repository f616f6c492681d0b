"""A process table that several gateways share, by way of a server that none of their calls waits for."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from agentix.cluster.table_engines import address_of
from agentix.cluster.table_ledger import Ledger
from agentix.cluster.table_memory import TotalsMemory
from agentix.cluster.table_record import News
from agentix.cluster.table_server import TableServer, TableServerError
from agentix.core.program import ProgramRow
from agentix.gateway.config import PROGRAM_IDLE_S
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.identity import is_anonymous
from agentix.gateway.observer import Observer

logger = logging.getLogger(__name__)

_MOST = 200  # programs in one exchange: taking over so many takes a few milliseconds, in which the gateway does nothing else
_FIRST_S = 2.0  # that calls wait at the start for what others know; and that the end waits for the server
_MAX_DELAY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTableSettings:
    """How gateways share.

    period_s  between two exchanges: what one gateway knows all others know within two of them and the time they take
    keep_s    how long the server keeps a program after its last change; programs idle for so long are over
    silent_s  a gateway that has not been heard of for so long is dead, and its active calls are over
    totals_period_s  between two exchanges of what is learnt of programs that are over
    """

    period_s: float = 0.2
    keep_s: float = PROGRAM_IDLE_S
    silent_s: float = 3.0
    totals_period_s: float = 30.0


class SharedTable(Observer):
    """One gateway's side of it: listens to the gateway's calls, and exchanges with the server beside them.

    While the server is away the gateway goes on with what it knows, and tells everything once it is back.
    """

    def __init__(self, url: str, settings: SharedTableSettings | None = None) -> None:
        self._settings = settings or SharedTableSettings()
        self._server = TableServer(url, keep_s=self._settings.keep_s, silent_s=self._settings.silent_s)
        self._gateway = uuid.uuid4().hex[:12]
        self._host = socket.gethostname()
        self._ledger: Ledger | None = None
        self._heard_s = time.monotonic()
        self._is_away = False

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Who is to be told how calls fare."""
        return (self,)

    def arrived(self, call: Call, now: float) -> None:  # noqa: D102 - of Observer, as are those below
        self._changed(call.identity.program_id, now)

    def over(self, call: Call, now: float) -> None:  # noqa: D102
        self._changed(call.identity.program_id, now)

    def program_changed(self, row: ProgramRow, now: float) -> None:  # noqa: D102
        self._changed(row.program_id, now)

    def program_ended(self, program_id: str, now: float) -> None:  # noqa: D102
        if self._ledger is not None:
            self._ledger.ended(program_id)

    def program_over(self, row: ProgramRow) -> None:  # noqa: D102
        if self._ledger is not None:
            self._ledger.over(row)

    @asynccontextmanager
    async def beside(self, exchange: Exchange) -> AsyncIterator[None]:
        """Share as long as the gateway serves; before its first call, take over what others know if the server is there."""

        def end(program_id: str, now: float) -> None:
            exchange.lifetimes.end(program_id, now)
            exchange.sessions.ended(program_id)

        ledger = self._ledger = Ledger(
            exchange.table,
            self._gateway,
            address_of=lambda engine_id: self._addresses(exchange, engine_id).get(engine_id, ""),
            engine_at=lambda address: next((e for e, a in self._addresses(exchange).items() if a == address), ""),
            on_served=exchange.lifetimes.rest,
            on_end=end,
        )
        memory = TotalsMemory(exchange.table, self._server)
        try:
            async with asyncio.timeout(_FIRST_S):
                while await self._exchange(exchange, ledger):
                    pass
        except (TableServerError, TimeoutError) as error:
            self._broke(error, exchange, ledger)
        else:
            with suppress(TableServerError, TimeoutError):  # what is missing now comes with the next exchange
                async with asyncio.timeout(_FIRST_S):
                    await memory.exchange()
        tasks = [asyncio.create_task(self._run(exchange, ledger)), asyncio.create_task(self._remember(memory))]
        try:
            yield
        finally:
            await _stop(tasks)
            with suppress(TableServerError, TimeoutError):
                async with asyncio.timeout(_FIRST_S):
                    await self._leave(ledger)
                    await memory.exchange()
            await self._server.close()

    def _changed(self, program_id: str, now: float) -> None:
        if self._ledger is not None and not is_anonymous(program_id):
            self._ledger.changed(program_id, now)

    async def _run(self, exchange: Exchange, ledger: Ledger) -> None:
        """Exchange for ever; at once again if there was more than goes into one exchange, later and later if it fails."""
        delay_s = self._settings.period_s
        while True:
            try:
                has_more = await self._exchange(exchange, ledger)
            except Exception as error:
                if not isinstance(error, TableServerError):  # a fault of ours must not end the sharing
                    logger.exception("an exchange with the shared table has failed")
                self._broke(error, exchange, ledger)
                delay_s = min(_MAX_DELAY_S, 2 * delay_s)
                await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - not for secrets
                continue
            delay_s = self._settings.period_s
            ledger.tend(time.monotonic(), self._settings.keep_s)
            await asyncio.sleep(0 if has_more else delay_s)

    async def _remember(self, memory: TotalsMemory) -> None:
        """Exchange what is learnt, for ever. Of a server that is away `_run` tells; what was not told is told the next time."""
        while True:
            await asyncio.sleep(self._settings.totals_period_s)
            try:
                await memory.exchange()
            except TableServerError:
                pass
            except Exception:  # a fault of ours must not end it
                logger.exception("what is learnt of programs could not be exchanged with the shared table")

    async def _exchange(self, exchange: Exchange, ledger: Ledger) -> bool:
        """One exchange; whether there is more to tell or to hear. Raises TableServerError."""
        told = ledger.take(_MOST, time.monotonic())
        loads = self._loads(exchange)
        try:
            news = await self._server.exchange(ledger.gateway, loads, told, since=ledger.number, most=_MOST)
        except BaseException:
            ledger.put_back(told)
            raise
        self._heard_s = time.monotonic()
        ledger.heard(news, self._heard_s)
        self._note_loads(exchange, news)
        if self._is_away:
            self._is_away = False
            logger.info("the shared table is back; %d programs are still to be told of", ledger.num_untold)
        return news.has_more or ledger.num_untold > 0

    async def _leave(self, ledger: Ledger) -> None:
        """Tell what is left, and that this gateway has no calls any more."""
        told = ledger.take(_MOST, time.monotonic())
        while told:
            await self._server.exchange(ledger.gateway, None, told, since=ledger.number, most=0)
            told = ledger.take(_MOST, time.monotonic())
        await self._server.exchange(ledger.gateway, None, (), since=ledger.number, most=0)

    def _broke(self, error: Exception, exchange: Exchange, ledger: Ledger) -> None:
        if not self._is_away:
            self._is_away = True
            logger.warning("the shared table does not answer (%s): going on with what is known here", error)
        ledger.lost()
        if time.monotonic() - self._heard_s > self._settings.silent_s:
            ledger.alone(time.monotonic())
            for state in exchange.pool.states.values():
                state.num_calls_elsewhere = 0

    def _loads(self, exchange: Exchange) -> dict[str, int]:
        """Calls in each engine, and held for it, by its address."""
        queues = exchange.admission.turns.queues
        addresses = self._addresses(exchange)
        return {addresses[e]: q.num_held + q.num_running for e, q in queues.items() if e in addresses}

    def _note_loads(self, exchange: Exchange, news: News) -> None:
        others: list[Mapping[str, int]] = [loads for name, loads in news.loads.items() if name != self._gateway]
        for engine_id, address in self._addresses(exchange).items():
            exchange.pool.states[engine_id].num_calls_elsewhere = sum(loads.get(address, 0) for loads in others)

    def _addresses(self, exchange: Exchange, *engine_ids: str) -> dict[str, str]:
        """Addresses of engines as all gateways know them, by id: of these engines, or of all."""
        states = exchange.pool.states
        return {i: address_of(states[i].target.url, self._host) for i in engine_ids or states if i in states}


async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until they are over: a client that is cancelled in a request may tell of a lost connection instead."""
    while under_way := {task for task in tasks if not task.done()}:
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way, timeout=0.1)
