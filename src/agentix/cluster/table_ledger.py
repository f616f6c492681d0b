"""One gateway's table beside the shared one: what is to be told, and what others have told. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from agentix.cluster.table_program import SharedProgram, Told
from agentix.cluster.table_record import ACCOUNT, COMMON, News, Record, Totals
from agentix.core.events import ServedElsewhere
from agentix.core.history import is_named
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow

KEPT_OVER_S = 600.0
"""For how long it is remembered that a program is over: a gateway that is away for longer may bring its part of it back."""


class Ledger:
    """Keeps the rows of one table equal to the sum of all gateways' accounts.

    The gateway tells what happens: `changed`, `ended`, `over`. `take` gives what is to be told next, and `heard` takes the
    answer. After a break (`lost`) everything is told again and everything asked for: an account is told whole, so nobody
    has to know what has come through.

    Invariant: a row that stands for a program has the sum of its own account and all others. Every method but `lost`,
    `alone`, and `heard` when another gateway comes or goes, takes time in proportion to the programs that it is about and
    the gateways that have served them.

    Args:
        table: the gateway's. Changed by `ServedElsewhere` alone.
        gateway: names it for good: no two, and no two runs of one, have the same.
        address_of: the engine's address by its id; "": unknown.
        engine_at: the inverse.
        on_served: told of a program that has been served elsewhere, and may be idle from now on.
        on_end: told of a program that is over because somebody said so elsewhere; ends its row.
    """

    def __init__(
        self,
        table: ProcessTable,
        gateway: str,
        *,
        address_of: Callable[[str], str],
        engine_at: Callable[[str], str],
        on_served: Callable[[str, float], None],
        on_end: Callable[[str, float], None],
    ) -> None:
        self.gateway = gateway
        self.number = 0  # of the last change that we have heard of
        self._table = table
        self._address_of = address_of
        self._engine_at = engine_at
        self._on_served = on_served
        self._on_end = on_end
        self._programs: dict[str, SharedProgram] = {}
        self._untold: dict[str, None] = {}
        self._alive: frozenset[str] = frozenset()
        self._server = ""
        self._num_accounts = 0
        self._sweep: Iterator[str] = iter(())

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def num_untold(self) -> int:
        """Programs of which there is something to tell."""
        return len(self._untold)

    def changed(self, program_id: str, now: float) -> None:
        """A call of the program has arrived or is over, or somebody has opened it or given it a weight."""
        program = self._program(program_id, now)
        row = self._table.rows.get(program_id)
        if row is not None and row is not program.row and not row.ended:
            self._follow(program, row, now)
        self._untold[program_id] = None

    def ended(self, program_id: str) -> None:
        """Somebody says here that the program is over. Nothing happens if nothing of it is shared."""
        program = self._programs.get(program_id)
        if program is None or program.row is None:
            return
        if program.told:
            program.begin_life(program.life + 1)
            self._untold[program_id] = None
        else:
            del self._programs[program_id]

    def over(self, row: ProgramRow) -> None:
        """The row is gone: the program is over, or was idle for long. In the second case its account stands."""
        program = self._programs.get(row.program_id)
        if program is not None and program.row is row:
            self._settle(program)
            program.row = None

    def take(self, most: int, now: float) -> list[Told]:
        """What is to be told next, of at most so many programs."""
        told: list[Told] = []
        while self._untold and len(told) < most:
            program_id = next(iter(self._untold))
            del self._untold[program_id]
            program = self._programs.get(program_id)
            if program is not None:
                self._settle(program)
                program.told, program.changed_s = True, now
                told.append(program.tell())
        return told

    def put_back(self, told: Iterable[Told]) -> None:
        """What was taken has not been told, or nobody knows whether it has."""
        self._untold |= dict.fromkeys(program_id for program_id, *_ in told)

    def heard(self, news: News, now: float) -> None:
        """The server has taken what was told last, and tells what it had before."""
        if self._server not in {"", news.server}:
            self.lost()  # it may have forgotten things
        else:
            self.number = news.number
        self._server = news.server
        alive = frozenset(news.loads) - {self.gateway}
        others_changed, self._alive = alive != self._alive, alive
        for program_id, record in news.records.items():
            self._merge(self._program(program_id, now), record, now)
        if others_changed:
            self._recount(now)

    def alone(self, now: float) -> None:
        """Nobody knows any more which other gateways are alive: calls of theirs count as over. O(programs)."""
        if self._alive:
            self._alive = frozenset()
            self._recount(now)

    def lost(self) -> None:
        """Nobody knows what has come through: tell everything again, and ask for everything. O(programs)."""
        self.number = 0
        self._untold |= dict.fromkeys(program_id for program_id, program in self._programs.items() if program.told)

    def tend(self, now: float, keep_s: float, most: int = 200) -> None:
        """Look after the next so many programs: have the server keep those with active calls, forget those it has forgotten.

        It keeps a program for `keep_s` after something was told of it, and one that is over for KEPT_OVER_S.
        """
        num_seen = 0
        for program_id in islice(self._sweep, most):
            num_seen += 1
            program = self._programs.get(program_id)
            if program is None:
                continue
            silent_s = now - program.changed_s
            if program.row is not None and program.row.calls and silent_s > keep_s / 3:
                self._untold[program_id] = None
            elif program.row is None and silent_s > (2 * keep_s if program.has_accounts else KEPT_OVER_S):
                del self._programs[program_id]
        if num_seen < most:
            self._sweep = iter(tuple(self._programs))

    def _program(self, program_id: str, now: float) -> SharedProgram:
        program = self._programs.get(program_id)
        if program is None:
            self._num_accounts += 1
            account = f"{ACCOUNT}{self.gateway}.{self._num_accounts}"
            program = self._programs[program_id] = SharedProgram(program_id=program_id, account=account, changed_s=now)
        program.changed_s = now
        return program

    def _merge(self, program: SharedProgram, record: Record, now: float) -> None:
        """Take over what others have told of a program."""
        program.told = True
        if record.life < program.life:  # the server has forgotten that it was over
            self._untold[program.program_id] = None
            return
        self._settle(program)
        if record.life > program.life:
            is_here = program.row is not None
            program.begin_life(record.life)
            if is_here:
                self._on_end(program.program_id, now)
        before, is_news = program.elsewhere, program.hear(record.accounts)
        adopted = program.adopt(record.common)
        row = self._table.rows.get(program.program_id)
        if row is not None and row.ended:
            return  # of an earlier life; it goes with its last call
        if row is not None and row is program.row:
            if is_news or adopted:
                self._apply(program, program.elsewhere.beyond(before), now, adopted)
        elif row is not None:
            self._follow(program, row, now)
        elif is_news:
            self._apply(program, program.own.totals + program.elsewhere, now)
            program.row = self._table.rows[program.program_id]
            self._fill_in(program, now)
        if is_news:
            self._on_served(program.program_id, now)

    def _recount(self, now: float) -> None:
        """Other gateways have come or gone, and their active calls with them."""
        for program in self._programs.values():
            if program.row is not None and program.row.num_calls_elsewhere != self._num_active(program):
                self._apply(program, Totals(), now)

    def _follow(self, program: SharedProgram, row: ProgramRow, now: float) -> None:
        """The row stands for the program from now on. It gets what it lacks; what it has beyond that counts as our own."""
        missing = (program.own.totals + program.elsewhere).beyond(Totals.of(row))
        program.row = row
        if program.has_accounts:
            self._apply(program, missing, now)
        self._fill_in(program, now)
        self._settle(program)

    def _fill_in(self, program: SharedProgram, now: float) -> None:
        """What holds for the program holds for a new row that says nothing else."""
        program.local = {}
        local = self._local(program.row)
        if not is_named(local["class"]):
            local["class"] = COMMON["class"]
        known = {name: said.value for name, said in program.common.items() if local[name] == COMMON[name]}
        if known:
            self._apply(program, Totals(), now, known)

    def _apply(self, program: SharedProgram, more: Totals, now: float, common: Mapping[str, Any] | None = None) -> None:
        """Have the row, which may be opened by this, grow by `more`, and have these common values."""
        common = common or {}
        self._table.apply(
            ServedElsewhere(
                now=now,
                program_id=program.program_id,
                service_s=more.service_s,
                waiting_s=more.waiting_s,
                critical_path_s=program.critical_path_s,
                num_finished=more.num_finished,
                num_aborted=more.num_aborted,
                num_calls=self._num_active(program),
                home_engine_id=self._engine_at(common.get("home", "")) or None,
                program_class=common.get("class"),
                weight=common.get("weight"),
            )
        )
        if common:
            local = self._local(program.row)
            program.local |= {name: local[name] for name in common}

    def _settle(self, program: SharedProgram) -> None:
        program.settle(self._local(program.row))

    def _local(self, row: ProgramRow | None) -> dict[str, Any]:
        """What a row says of what is common; an engine is its address, because gateways may call it by different ids."""
        if row is None:
            return dict(COMMON)
        home = self._address_of(row.home_engine_id) if row.home_engine_id else ""
        return {"home": home, "weight": row.weight, "class": row.program_class}

    def _num_active(self, program: SharedProgram) -> int:
        """Its calls at other gateways that are alive."""
        return sum(a.num_active for name, a in program.others.items() if _gateway_of(name) in self._alive)


def _gateway_of(account: str) -> str:
    return account.removeprefix(ACCOUNT).rpartition(".")[0]
