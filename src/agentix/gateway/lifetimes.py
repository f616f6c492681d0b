"""When is a program over? Somebody says so, or it has been idle for longer than programs here come back after."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from agentix.core.events import Attained, ProgramEnded
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.identity.recent import Recent
from agentix.gateway.identity.scoped import split_scoped

_FACTOR = 4.0  # times the idle time that 99 of 100 gaps stay below
_MIN_S = 60.0
_MIN_GAPS = 100
_GAPS_KEPT = 1024


class Lifetimes:
    """Ends programs that their clients have forgotten, so that they cost nothing.

    `limit_s` is learned from the gaps between the calls of programs that did come back, those that came back too late among
    them. A program that comes back after its end goes on from the totals that it had, so that an end too early costs it
    only its place. Idle programs that nobody named, and that may well be single calls, are at most `max_anonymous` at a time,
    and idle programs of one tenant `max_idle`: those that have been idle for longest are over then.
    `on_over` gets the last row of every program that is over, once; `on_end` hears before that if somebody says so. Every
    method takes constant time for each program that it ends.
    """

    def __init__(
        self,
        table: ProcessTable,
        *,
        max_idle_s: float,
        max_anonymous: int = 10_000,
        max_idle: int = 20_000,
        on_over: Callable[[ProgramRow], None] | None = None,
        on_end: Callable[[str, float], None] | None = None,
    ) -> None:
        self._table = table
        self._max_idle_s = max_idle_s
        self._max_anonymous = max_anonymous
        self._max_idle = max_idle
        self._idle: OrderedDict[str, float] = OrderedDict()  # idle programs and since when, longest first
        self._anonymous: OrderedDict[str, None] = OrderedDict()  # those of them that nobody named
        self._idle_of: dict[str, OrderedDict[str, None]] = {}  # all of them by tenant
        self._ended: Recent[str, tuple[float, Attained]] = Recent(max_anonymous)
        self._gaps_s: deque[float] = deque(maxlen=_GAPS_KEPT)
        self._limit_s = max_idle_s
        self._on_over = on_over
        self._on_end = on_end
        table.on_totals(self._tell_if_over)

    @property
    def limit_s(self) -> float:
        """How long a program may be idle before it is taken to be over."""
        return self._limit_s

    def resume(self, program_id: str, now: float) -> Attained | None:
        """A call of the program arrives; gives the totals it had, if it was taken to be over."""
        since = self._stir(program_id)
        if since is not None:
            self._gaps_s.append(now - since)
        ended = self._ended.pop(program_id)
        if ended is None:
            return None
        self._gaps_s.append(now - ended[0])
        return ended[1]

    def rest(self, program_id: str, now: float, *, anonymous: bool = False) -> None:
        """The program may be idle from now on: it is, if none of its calls is active."""
        row = self._table.rows.get(program_id)
        if row is None or row.calls:
            return
        self._stir(program_id)
        self._idle[program_id] = now
        of_tenant = self._idle_of.setdefault(split_scoped(program_id)[0], OrderedDict())
        of_tenant[program_id] = None
        if len(of_tenant) > self._max_idle:
            self._give_up(next(iter(of_tenant)), now)
        if anonymous:
            self._anonymous[program_id] = None
            if len(self._anonymous) > self._max_anonymous:
                self._give_up(next(iter(self._anonymous)), now)

    def end(self, program_id: str, now: float) -> None:
        """Somebody says that the program is over. Its active calls go on; the row stays until the last of them is over."""
        if self._on_end is not None:
            self._on_end(program_id, now)
        self._end(program_id, now)

    def _end(self, program_id: str, now: float) -> None:
        self._stir(program_id)
        self._ended.pop(program_id)
        row = self._table.rows.get(program_id)
        if row is not None:
            self._table.apply(ProgramEnded(now=now, program_id=program_id))
            self._tell_if_over(row)

    def expire(self, now: float) -> None:
        """End the programs that have been idle for longer than `limit_s`, which is learned anew."""
        if len(self._gaps_s) >= _MIN_GAPS:
            gaps_s = sorted(self._gaps_s)
            learned_s = max(_MIN_S, _FACTOR * gaps_s[int(0.99 * len(gaps_s))])
            self._limit_s = min(self._max_idle_s, learned_s)
        while self._idle:
            program_id, since = next(iter(self._idle.items()))
            if now - since <= self._limit_s:
                break
            self._give_up(program_id, now)

    def _stir(self, program_id: str) -> float | None:
        """The program is not idle any more; gives since when it was, if it was."""
        self._anonymous.pop(program_id, None)
        tenant = split_scoped(program_id)[0]
        of_tenant = self._idle_of.get(tenant)
        if of_tenant is not None:
            of_tenant.pop(program_id, None)
            if not of_tenant:
                del self._idle_of[tenant]
        return self._idle.pop(program_id, None)

    def _tell_if_over(self, row: ProgramRow) -> None:
        if self._on_over is not None and row.ended and not row.calls:
            self._on_over(row)

    def _give_up(self, program_id: str, now: float) -> None:
        since = self._idle[program_id]
        row = self._table.rows.get(program_id)
        self._end(program_id, now)
        if row is not None:
            self._ended[program_id] = since, _totals(row)


def _totals(row: ProgramRow) -> Attained:
    return Attained(
        service_s=row.service_s,
        waiting_s=row.waiting_s,
        critical_path_s=row.critical_path_s,
        program_class=row.program_class or None,
        weight=row.weight,
    )
