"""The process table as it changes: what a dashboard asks for once a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Container, Hashable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.admission import Admission
from agentix.gateway.cursor import Cursors
from agentix.gateway.identity import split_scoped
from agentix.gateway.tenants import is_admin, tenant_of

MAX_ROWS = 250  # in one answer: describing so many takes some ten milliseconds, in which the gateway does nothing else
_SLICE = 100  # rows looked at before calls get their turn
_LARGEST_SHARE = 0.05  # of the time goes into looking, however many programs there are
_NEAR = 20  # places in a queue beyond which it is no news that a call has moved up

Describe = Callable[[ProgramRow, float], dict[str, Any]]


class Changes:
    """Which programs have changed since a reader asked last.

    Every change gets a number, one row has only its last one, and a reader's cursor is the largest number it has: so a reader
    that was away for an hour gets each row once. While it reads its first pages the cursor also has the number at which it
    began. The table is looked through when somebody asks, at most twice a second
    however many ask, in slices between which calls are served; where nobody asks, nothing is done. What grows by itself, such
    as an age, is no change: readers have the moment of each answer and can add.

    `paused` has the ids of paused programs, `standing` tells what of an active call's place is worth telling.
    """

    def __init__(
        self,
        table: ProcessTable,
        describe: Describe,
        *,
        paused: Container[str] = (),
        standing: Callable[[str], Hashable] = lambda _: None,
        min_period_s: float = 0.5,
        max_rows: int = MAX_ROWS,
        max_gone: int = 20_000,
    ) -> None:
        self._table = table
        self._describe = describe
        self._paused = paused
        self._standing = standing
        self._min_period_s = min_period_s
        self._max_rows = max_rows
        self._cursors = Cursors()
        self._number = 0
        self._seen: dict[str, tuple[int, Hashable]] = {}  # by the number of the last change, smallest first
        self._gone: deque[tuple[int, str]] = deque(maxlen=max_gone)
        self._looking = asyncio.Lock()
        self._next_look_s = 0.0

    async def show(self, request: Request) -> Response:
        """GET /v1/changes: rows that have changed since `since`, the `next` of an earlier answer, and those that are `gone`.

        A tenant's own; an admin gets everybody's. `complete`: the answer begins anew, and what the reader had is void.
        `has_more`: ask again at once. What is gone is to be taken out before `data` is put in.
        """
        at, _, began = request.query_params.get("since", "").partition("~")
        since = self._cursors.read(at, "since")
        known = max(since, self._cursors.read(began, "since"))  # what was gone when the reader began it has never had
        async with self._looking:
            await self._look()
        # What else went may have been forgotten.
        if since > self._number or (len(self._gone) == self._gone.maxlen and known < self._gone[0][0]):
            since = 0
        if since == 0:
            known = self._number
        now, tenant = time.monotonic(), None if is_admin(request) else tenant_of(request)
        page = self._changed(since, tenant)
        number = page[-1][0] if len(page) == self._max_rows else self._number
        rows = (self._table.rows.get(program_id) for _, program_id in page)  # what has ended meanwhile is gone next time
        return JSONResponse(
            {
                "object": "program.changes",
                "complete": since == 0,
                "data": [self._describe(row, now) for row in rows if row is not None],
                "gone": [
                    {"id": split_scoped(program_id)[1], "tenant": split_scoped(program_id)[0]}
                    for n, program_id in self._gone
                    if 0 < since < n <= number and _is_of(program_id, tenant)
                ],
                "has_more": number < self._number,
                "next": self._cursors.write(number) + (f"~{self._cursors.write(known)}" if number < known else ""),
                "now_s": now,
            }
        )

    def _changed(self, since: int, tenant: str | None) -> list[tuple[int, str]]:
        """Programs with changes behind that number, and the numbers: as many as fit into an answer. O(changes)."""
        found = []
        for program_id, (number, _) in reversed(self._seen.items()):
            if number <= since:
                break
            if _is_of(program_id, tenant):
                found.append((number, program_id))
        return found[::-1][: self._max_rows]

    async def _look(self) -> None:
        """Number what is new. Takes no more than its share of the time, by waiting longer for the next look."""
        began_s = time.monotonic()
        if began_s < self._next_look_s:
            return
        for n, row in enumerate(list(self._table.rows.values()), start=1):
            mark = self._mark(row)
            seen = self._seen.get(row.program_id)
            if seen is None or seen[1] != mark:
                self._seen.pop(row.program_id, None)
                self._number += 1
                self._seen[row.program_id] = self._number, mark
            if n % _SLICE == 0:
                await asyncio.sleep(0)
        for program_id in self._seen.keys() - self._table.rows.keys():
            del self._seen[program_id]
            self._number += 1
            self._gone.append((self._number, program_id))
        ended_s = time.monotonic()
        self._next_look_s = ended_s + max(self._min_period_s, (ended_s - began_s) / _LARGEST_SHARE)

    def _mark(self, row: ProgramRow) -> Hashable:
        """Equal as long as nothing has happened to the program that a reader cannot tell by itself."""
        counts = row.num_finished, row.num_aborted, row.ended
        own = *counts, row.started_s, row.program_class, row.home_engine_id, row.weight, row.program_id in self._paused
        return own, tuple((key, call.engine_id, call.running, self._standing(key)) for key, call in row.calls.items())


def standing_of(admission: Admission) -> Callable[[str], Hashable]:
    """Where an active call stands, by its id in the table, as far as its change is news. O(log calls)."""

    def standing(key: str) -> Hashable:
        place = admission.places.get(key)
        if place is None:
            return None
        queue = admission.turns.queue(place.engine_id)
        position = queue.position(place)
        near = position if position is None or position <= _NEAR else None
        return place.sent_s is None, place.answering, place.asleep, queue.level(place), near

    return standing


def _is_of(program_id: str, tenant: str | None) -> bool:
    """Whether it is this tenant's program, or a reader's who may see all (None)."""
    return tenant is None or split_scoped(program_id)[0] == tenant
