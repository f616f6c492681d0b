"""The programs API: open and close a session, cancel its calls, and look at the process table."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentix.core.events import ProgramStarted
from agentix.core.program import MAX_WEIGHT, MIN_WEIGHT, CallRow, ProgramRow
from agentix.gateway.body import read_object
from agentix.gateway.errors import HTTPError
from agentix.gateway.exchange import Exchange
from agentix.gateway.identity import check_id, scoped, split_scoped
from agentix.gateway.tenants import is_admin, tenant_of

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000


class Programs:
    """Handlers over one process table. Errors are HTTPError; the app turns them into answers."""

    def __init__(self, exchange: Exchange) -> None:
        self._table = exchange.table
        self._lifetimes = exchange.lifetimes
        self._sessions = exchange.sessions
        self._observer = exchange.observer
        self._scopes = exchange.scopes
        self._admission = exchange.admission
        self._weighing = exchange.weighing
        self._max_body_bytes = exchange.max_body_bytes

    async def list(self, request: Request) -> Response:
        """GET /v1/programs: live programs by arrival, oldest first, a page at a time.

        A tenant's own; an admin's list has everybody's. Query (all optional): `class`, `tenant` (for admins), `limit` (1 to
        1000; 100), and `after`, the `next` of the page before. A program is on one page at most, and none is skipped that
        lives all the while. O(live programs).
        """
        query, now = request.query_params, time.monotonic()
        rows: Iterable[ProgramRow] = self._table.rows.values()
        if "tenant" in query or not is_admin(request):
            tenant = _tenant(request)
            rows = (row for row in rows if split_scoped(row.program_id)[0] == tenant)
        if "class" in query:
            rows = (row for row in rows if row.program_class == query["class"])
        if "after" in query:
            last_s, last_id = _read_cursor(query["after"])
            rows = (row for row in rows if row.started_s >= last_s and _place(row) > (last_s, last_id))
        limit = _read_limit(query.get("limit", str(_DEFAULT_LIMIT)))
        page = _first(rows, limit + 1)
        more = len(page) > limit
        data = [self.describe(row, now) for row in page[:limit]]
        next_cursor = "{!r}:{}".format(*_place(page[limit - 1])) if more else None
        return JSONResponse({"object": "list", "data": data, "has_more": more, "next": next_cursor})

    async def get(self, request: Request) -> Response:
        """GET /v1/programs/{id}: one row; 404 if there is none."""
        return JSONResponse(self.describe(self._named(request), time.monotonic()))

    async def start(self, request: Request) -> Response:
        """POST /v1/programs: open a session. Idempotent: 201 when it is new, 200 when it lives already.

        Body (all optional): `program_id`, made up if absent, and `class`, a name for its kind of agent.
        """
        options = await read_object(request, self._max_body_bytes, default=b"{}")
        unknown = options.keys() - {"program_id", "class"}
        if unknown:
            raise HTTPError(400, f"unknown field {min(unknown)!r}; known: class, program_id")
        program_id = options.get("program_id", f"program-{uuid.uuid4().hex}")
        program_class = options.get("class", "")
        if not isinstance(program_id, str) or not isinstance(program_class, str):
            raise HTTPError(400, "program_id and class must be strings")
        program_id = scoped(tenant_of(request), check_id(program_id.strip()))
        check_id(program_class or "-")
        new = program_id not in self._table.rows
        now = time.monotonic()
        self._table.apply(ProgramStarted(now=now, program_id=program_id, program_class=program_class))
        self._lifetimes.rest(program_id, now)
        self._observer.program_changed(self._table.row(program_id), now)
        return JSONResponse(self.describe(self._table.row(program_id), now), status_code=201 if new else 200)

    async def end(self, request: Request) -> Response:
        """DELETE /v1/programs/{id}: close the session; answers with its final row. 404 if there is none.

        Calls that are still active go on; the row stays until the last of them is over.
        """
        return JSONResponse(self._end(self._named(request)))

    async def cancel(self, request: Request) -> Response:
        """POST /v1/programs/{id}/cancel: abort the program's active calls in their engines; answers with their ids.

        404 if there is no such program. Query: `thread` leaves alone what is not of that thread or of those that it has
        launched, at any depth. A call whose answer is complete is none to abort. The program lives on: to be rid of it, end
        it too.
        """
        row, thread_id = self._named(request), request.query_params.get("thread")
        threads = None if thread_id is None else self._sessions.subtree(row.program_id, thread_id)
        cancelled = []
        for key, call in row.calls.items():
            if key in self._scopes and (threads is None or call.thread_id in threads):
                self._scopes[key].cancel()
                cancelled.append(_without_program(key, call))
        return JSONResponse({"object": "program.cancelled", "id": split_scoped(row.program_id)[1], "cancelled": cancelled})

    async def pause(self, request: Request) -> Response:
        """POST /v1/programs/{id}/pause: hold its calls that are in no engine yet, and those that come; answers with the row.

        Calls in engines go on. None is held for longer than others are (`max_hold_s`). A program that ends is paused no more.
        """
        row, now = self._named(request), time.monotonic()
        self._admission.pause(row.program_id, now)
        return JSONResponse(self.describe(row, now))

    async def resume(self, request: Request) -> Response:
        """POST /v1/programs/{id}/resume: let its calls go again; answers with the row."""
        row, now = self._named(request), time.monotonic()
        self._admission.resume(row.program_id, now)
        return JSONResponse(self.describe(row, now))

    async def change(self, request: Request) -> Response:
        """PATCH /v1/programs/{id} `{"weight": w}`: its service counts 1/w from now on; answers with the row."""
        row, changes, now = self._named(request), await read_object(request, self._max_body_bytes), time.monotonic()
        if unknown := changes.keys() - {"weight"}:
            raise HTTPError(400, f"unknown field {min(unknown)!r}; known: weight", param=min(unknown))
        weight = changes.get("weight", row.weight)
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            raise HTTPError(400, f"weight must be a number from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}", param="weight")
        if weight > 1 and not is_admin(request):  # in engines it would be at the expense of other tenants
            raise HTTPError(
                403, "a weight above 1 is for tenants with admin = true to give", "permission_error", param="weight"
            )
        if row.program_id not in self._table.rows:
            raise HTTPError(404, f"the program {request.path_params['program_id']!r} has just ended")
        self._admission.weigh(row.program_id, float(weight), now)
        self._observer.program_changed(row, now)
        return JSONResponse(self.describe(row, now))

    def describe(self, row: ProgramRow, now: float) -> dict[str, Any]:
        """A row for the wire, with what the gateway does with the program and its calls. Durations and ages in seconds."""
        described = describe(row, now)
        for of_thread in described["threads"].values():
            for call in of_thread:
                call.update(self._admission.describe(f"{row.program_id}/{call['call_id']}"))
        moved = self._weighing.moved(row.program_id, now)
        return {**described, "moved": moved, "paused": row.program_id in self._admission.paused}

    async def release(self, request: Request) -> Response:
        """POST /programs/release `{"program_id"}`: the same, in ThunderAgent's words."""
        body = await read_object(request, self._max_body_bytes)
        program_id = body.get("program_id")
        if not isinstance(program_id, str):
            raise HTTPError(400, "program_id must be a string")
        return JSONResponse(self._end(self._row(tenant_of(request), program_id.strip())))

    def _end(self, row: ProgramRow) -> dict[str, Any]:
        now = time.monotonic()
        self._lifetimes.end(row.program_id, now)
        self._sessions.ended(row.program_id)
        return self.describe(row, now)

    def _named(self, request: Request) -> ProgramRow:
        """The program that the path names."""
        return self._row(_tenant(request), request.path_params["program_id"])

    def _row(self, tenant: str, program_id: str) -> ProgramRow:
        row = self._table.rows.get(scoped(tenant, program_id))
        if row is None:
            raise HTTPError(404, f"no program {program_id!r}; it never started, has ended, or was idle for too long")
        return row


def _tenant(request: Request) -> str:
    """Whose programs a request is about: the sender's, or those of the tenant that an admin has named in the query."""
    own = tenant_of(request)
    return request.query_params.get("tenant", own) if own and is_admin(request) else own


def _place(row: ProgramRow) -> tuple[float, str]:
    """Where a row stands in the list: by arrival."""
    return row.started_s, row.program_id


def _first(rows: Iterable[ProgramRow], num_rows: int) -> list[ProgramRow]:
    """So many rows of the table, or a few more, in order. The table has them by arrival already, except within one moment."""
    first: list[ProgramRow] = []
    for row in rows:
        if len(first) >= num_rows and row.started_s > first[-1].started_s:
            break
        first.append(row)
    return sorted(first, key=_place)


def _read_cursor(cursor: str) -> tuple[float, str]:
    """The place that a `next` stands for. Raises HTTPError 400."""
    moment, colon, program_id = cursor.partition(":")
    try:
        started_s = float(moment)
    except ValueError:
        started_s = math.nan
    if not colon or math.isnan(started_s):
        raise HTTPError(400, f"after must be the `next` of an earlier page, not {cursor[:100]!r}", param="after")
    return started_s, program_id


def _read_limit(text: str) -> int:
    """A number of programs for one page. Raises HTTPError 400."""
    limit = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
    if not 1 <= limit <= _MAX_LIMIT:
        raise HTTPError(400, f"limit must be from 1 to {_MAX_LIMIT}, not {text[:100]!r}", param="limit")
    return limit


def describe(row: ProgramRow, now: float) -> dict[str, Any]:
    """A row for the wire. Durations and ages in seconds, as of `now`."""
    tenant, program_id = split_scoped(row.program_id)
    return {
        "object": "program",
        "id": program_id,
        "tenant": tenant,
        "class": row.program_class,
        "age_s": now - row.started_s,
        "service_s": row.service_s,
        "waiting_s": row.waiting_s,
        "critical_path_s": row.critical_path_s,
        "context_tokens": row.context_tokens,
        "weight": row.weight,
        "engine_ids": row.engine_ids,
        "home_engine_id": row.home_engine_id,
        "since_last_arrival_s": _age(row.last_arrival_s, now),
        "since_last_completion_s": _age(row.last_completion_s, now),
        "num_finished": row.num_finished,
        "num_aborted": row.num_aborted,
        "num_calls_elsewhere": row.num_calls_elsewhere,
        "ended": row.ended,
        "threads": {t: [_describe_call(c, now) for c in calls] for t, calls in row.threads.items()},
    }


def _describe_call(call: CallRow, now: float) -> dict[str, Any]:
    return {
        "call_id": _without_program(call.call_id, call),
        "engine_id": call.engine_id,
        "parents": call.parents and [_without_program(p, call) for p in call.parents],
        "prompt_tokens": call.prompt_tokens,
        "age_s": now - call.arrived_s,
        "service_s": call.service_s,
        "answering": False,
    }


def _without_program(key: str, call: CallRow) -> str:
    """The id as the client knows it."""
    return key.removeprefix(f"{call.program_id}/")


def _age(moment_s: float | None, now: float) -> float | None:
    return None if moment_s is None else now - moment_s
