"""A gateway without HTTP that shares its table: calls in one word, exchanges one at a time, with every way they can fail."""

from __future__ import annotations

import asyncio
from itertools import count

from agentix.cluster.table_ledger import Ledger
from agentix.cluster.table_server import TableServer
from agentix.core import ProcessTable, ProgramRow
from agentix.core.events import CallAborted, CallArrived, CallFinished, ProgramEnded, ProgramStarted, ProgramWeighted

_RUNS = count()


class Gateway:
    """One gateway, with a clock of its own. `url`: the server's. Engine `e0` is at `http://e0`, and so on."""

    def __init__(self, url: str, *, loop: asyncio.AbstractEventLoop, silent_s: float = 3600.0, keep_s: float = 3600.0) -> None:
        self.table = ProcessTable()
        self.now = 0.0
        self.served: list[str] = []
        self._server = TableServer(url, keep_s=keep_s, silent_s=silent_s)
        self._loop = loop
        self._num_calls = 0
        self.ledger = Ledger(
            self.table,
            f"g{next(_RUNS)}",
            address_of=lambda engine_id: f"http://{engine_id}",
            engine_at=lambda address: address.removeprefix("http://"),
            on_served=lambda program_id, _: self.served.append(program_id),
            on_end=self._end,
        )

    def arrive(self, program_id: str, *, engine_id: str = "", pin: bool = False) -> str:
        """A call begins; gives its id."""
        self._num_calls += 1
        call_id = f"{program_id}/{self._num_calls}"
        arrived = CallArrived(now=self.now, call_id=call_id, program_id=program_id, engine_id=engine_id, pin=pin)
        self.table.apply(arrived)
        self.ledger.changed(program_id, self.now)
        return call_id

    def finish(self, call_id: str, service_s: float, waiting_s: float = 0.0, *, aborted: bool = False) -> None:
        """It is over."""
        self.ledger.changed(self.table.call(call_id).program_id, self.now)
        over = CallAborted if aborted else CallFinished
        self.table.apply(over(now=self.now, call_id=call_id, service_s=service_s, waiting_s=waiting_s))

    def call(self, program_id: str, service_s: float = 1.0, *, engine_id: str = "", pin: bool = False) -> None:
        """A whole call."""
        self.finish(self.arrive(program_id, engine_id=engine_id, pin=pin), service_s)

    def open(self, program_id: str, program_class: str = "") -> None:
        """Somebody opens a session."""
        self.table.apply(ProgramStarted(now=self.now, program_id=program_id, program_class=program_class))
        self.ledger.changed(program_id, self.now)

    def weigh(self, program_id: str, weight: float) -> None:
        """Somebody gives the program a weight."""
        self.table.apply(ProgramWeighted(now=self.now, program_id=program_id, weight=weight))
        self.ledger.changed(program_id, self.now)

    def end(self, program_id: str) -> None:
        """Somebody says that the program is over."""
        self.ledger.ended(program_id)
        self._end(program_id, self.now)

    def give_up(self, program_id: str) -> None:
        """It has been idle for long."""
        self._end(program_id, self.now)

    def exchange(self, *, most: int = 1000, sent: bool = True, answered: bool = True) -> None:
        """One exchange. `sent`: the request reaches the server; `answered`: and the answer us."""
        told = self.ledger.take(most, self.now)
        if sent:
            coming = self._server.exchange(self.ledger.gateway, {}, told, since=self.ledger.number, most=most)
            news = self._loop.run_until_complete(coming)
        if sent and answered:
            self.ledger.heard(news, self.now)
        else:
            self.ledger.put_back(told)
            self.ledger.lost()
        self.table.validate()

    def catch_up(self) -> None:
        """Exchange until nothing is left to tell, and once more."""
        self.exchange()
        while self.ledger.num_untold:
            self.exchange()
        self.exchange()

    def row(self, program_id: str = "p") -> ProgramRow:
        """The program's row."""
        return self.table.row(program_id)

    def totals(self, program_id: str = "p") -> tuple[float, float, int, int]:
        """Service, waiting, calls finished and aborted of the program; zeros if it has no row."""
        row = self.table.rows.get(program_id)
        return (row.service_s, row.waiting_s, row.num_finished, row.num_aborted) if row else (0.0, 0.0, 0, 0)

    def close(self) -> None:
        """Hang up, as one that is killed does: nothing is told."""
        self._loop.run_until_complete(self._server.close())

    def _end(self, program_id: str, now: float) -> None:
        row = self.table.rows.get(program_id)
        if row is not None:
            self.table.apply(ProgramEnded(now=now, program_id=program_id))
            self.ledger.over(row)
