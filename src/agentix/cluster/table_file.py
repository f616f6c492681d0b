"""A process table that outlives its gateway, in a file."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agentix.cluster.table_engines import address_of
from agentix.cluster.table_snapshot import SnapshotError, from_text, to_line, to_text
from agentix.cluster.table_totals import TotalsLines
from agentix.core.errors import ConfigError
from agentix.gateway.exchange import Exchange
from agentix.gateway.identity import is_anonymous
from agentix.gateway.observer import Observer

logger = logging.getLogger(__name__)

PERIOD_S = 5.0
_SLICE = 100  # rows written down before calls get their turn


class TableFile:
    """Written every few seconds if something has changed, and when the gateway stops; read when it starts.

    The file is always whole: a new one takes its place at once. One that cannot be read is put aside as FILE.broken, and the
    table begins empty. Programs that nobody has named are not kept: after a restart nothing leads to them; what is learnt of
    them is, once they are over. Only its owner may read the file.

    Args:
        path: the file. Raises ConfigError if it cannot be read, or written there, or another gateway writes it.
        keep_s: programs that have been idle for longer are over.
    """

    def __init__(self, path: Path, *, keep_s: float, period_s: float = PERIOD_S) -> None:
        self._path = path
        self._keep_s = keep_s
        self._period_s = period_s
        self._host = socket.gethostname()
        self._totals = TotalsLines()
        self._written: str | None = None
        self._failed = False
        self._text = _read(path)
        self._lock = _lock(path)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Nobody is to be told of calls: the table is looked at now and then."""
        return ()

    @asynccontextmanager
    async def beside(self, exchange: Exchange) -> AsyncIterator[None]:
        """Keep the table as long as the gateway serves."""
        self._load(exchange)
        stopped = asyncio.Event()
        task = asyncio.create_task(self._run(exchange, stopped))
        try:
            yield
        finally:
            stopped.set()
            await task
            os.close(self._lock)

    def _load(self, exchange: Exchange) -> None:
        """Rows for the programs of the file: in the table by arrival, among the idle ones by when they were used last."""
        if self._text is None:
            return
        engines = {address_of(s.target.url, self._host): i for i, s in exchange.pool.states.items()}
        clocks = {"now": time.monotonic(), "wall_s": time.time()}
        try:
            snapshot = from_text(self._text, engine_at=lambda a: engines.get(a, ""), keep_s=self._keep_s, **clocks)
        except SnapshotError as error:
            self._put_aside(str(error))
            return
        for program in sorted(snapshot.programs, key=lambda k: k.event.started_s or 0.0):
            exchange.table.apply(program.event)
        for program in sorted(snapshot.programs, key=lambda k: k.idle_since_s):
            exchange.lifetimes.rest(program.event.program_id, program.idle_since_s)
        for learnt in snapshot.learnt:
            exchange.table.apply(learnt)
        self._text = None
        num_classes = sum(learnt.program_class is not None for learnt in snapshot.learnt)
        logger.info("%d programs, and what %d classes need, go on from %s", len(snapshot.programs), num_classes, self._path)

    def _put_aside(self, why: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.broken")
        logger.warning("cannot read the process table in %s (%s): it is %s now, and we begin with none", self._path, why, aside)
        with suppress(OSError):
            self._path.replace(aside)

    async def _run(self, exchange: Exchange, stopped: asyncio.Event) -> None:
        """Save now and then. Not to be cancelled: what writes the file cannot be."""
        while not stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await stopped.wait()
            await self._save(exchange)
        await self._save(exchange)  # what happened while that was written

    async def _save(self, exchange: Exchange) -> None:
        """Write the file, if it would say anything new. What cannot be written is tried again the next time."""
        lines, states = [], exchange.pool.states
        now, wall_s = time.monotonic(), time.time()
        for n, row in enumerate(tuple(exchange.table.rows.values()), start=1):
            if not row.ended and not is_anonymous(row.program_id):
                state = states.get(row.home_engine_id or "")
                home = address_of(state.target.url, self._host) if state is not None else ""
                lines.append(to_line(row, home=home, now=now, wall_s=wall_s))
            if n % _SLICE == 0:
                await asyncio.sleep(0)
        text = to_text(lines, await self._totals.of(exchange.table.histories))
        if text == self._written:
            return
        try:
            await asyncio.to_thread(_write, self._path, text)
            self._written, self._failed = text, False
        except OSError as error:
            if not self._failed:
                logger.warning("the process table cannot be written to %s: %s", self._path, error)
            self._failed = True


def _lock(path: Path) -> int:
    """Keep the file to this process until the descriptor is closed, at the latest with the process."""
    try:
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(f"the process table cannot be kept in {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ConfigError(
            f"another gateway keeps its process table in {path}; several gateways share one at a redis:// address"
        ) from None
    return lock


def _read(path: Path) -> str | None:
    """What the file says; None: there is none. What is no text fails as a snapshot, not here."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the process table in {path}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """A new file in the place of the old one: whole on the disk before it has its name."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
