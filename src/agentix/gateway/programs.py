"""The programs API: open and close a session, and look at the process table."""

from __future__ import annotations

import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentix.core.events import ProgramStarted
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow
from agentix.gateway.body import read_object
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Sessions, check_id
from agentix.gateway.lifetimes import Lifetimes


class Programs:
    """Handlers over one process table. Errors are HTTPError; the app turns them into answers."""

    def __init__(self, table: ProcessTable, lifetimes: Lifetimes, sessions: Sessions, *, max_body_bytes: int) -> None:
        self._table = table
        self._lifetimes = lifetimes
        self._sessions = sessions
        self._max_body_bytes = max_body_bytes

    async def list(self, request: Request) -> Response:
        """GET /v1/programs: every live program, oldest first."""
        now = time.monotonic()
        rows = [describe(row, now) for row in self._table.rows.values()]
        return JSONResponse({"object": "list", "data": rows})

    async def get(self, request: Request) -> Response:
        """GET /v1/programs/{id}: one row; 404 if there is none."""
        return JSONResponse(describe(self._row(request.path_params["program_id"]), time.monotonic()))

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
        program_id = check_id(program_id.strip())
        check_id(program_class or "-")
        new = program_id not in self._table.rows
        now = time.monotonic()
        self._table.apply(ProgramStarted(now=now, program_id=program_id, program_class=program_class))
        self._lifetimes.rest(program_id, now)
        return JSONResponse(describe(self._table.row(program_id), now), status_code=201 if new else 200)

    async def end(self, request: Request) -> Response:
        """DELETE /v1/programs/{id}: close the session; answers with its final row. 404 if there is none.

        Calls that are still active go on; the row stays until the last of them is over.
        """
        return JSONResponse(self._end(request.path_params["program_id"]))

    async def release(self, request: Request) -> Response:
        """POST /programs/release `{"program_id"}`: the same, in ThunderAgent's words."""
        body = await read_object(request, self._max_body_bytes)
        program_id = body.get("program_id")
        if not isinstance(program_id, str):
            raise HTTPError(400, "program_id must be a string")
        return JSONResponse(self._end(program_id.strip()))

    def _end(self, program_id: str) -> dict[str, Any]:
        row = self._row(program_id)
        now = time.monotonic()
        self._lifetimes.end(program_id, now)
        self._sessions.ended(program_id)
        return describe(row, now)

    def _row(self, program_id: str) -> ProgramRow:
        row = self._table.rows.get(program_id)
        if row is None:
            raise HTTPError(404, f"no program {program_id!r}; it never started, has ended, or was idle for too long")
        return row


def describe(row: ProgramRow, now: float) -> dict[str, Any]:
    """A row for the wire. Durations and ages in seconds, as of `now`."""
    return {
        "object": "program",
        "id": row.program_id,
        "class": row.program_class,
        "age_s": now - row.started_s,
        "service_s": row.service_s,
        "waiting_s": row.waiting_s,
        "critical_path_s": row.critical_path_s,
        "engine_ids": row.engine_ids,
        "home_engine_id": row.home_engine_id,
        "since_last_arrival_s": _age(row.last_arrival_s, now),
        "since_last_completion_s": _age(row.last_completion_s, now),
        "num_finished": row.num_finished,
        "num_aborted": row.num_aborted,
        "ended": row.ended,
        "threads": {t: [_describe_call(c, now) for c in calls] for t, calls in row.threads.items()},
    }


def _describe_call(call: CallRow, now: float) -> dict[str, Any]:
    return {
        "call_id": _without_program(call.call_id, call),
        "engine_id": call.engine_id,
        "parents": call.parents and [_without_program(p, call) for p in call.parents],
        "age_s": now - call.arrived_s,
        "answering": call.running,
    }


def _without_program(key: str, call: CallRow) -> str:
    """The id as the client knows it."""
    return key.removeprefix(f"{call.program_id}/")


def _age(moment_s: float | None, now: float) -> float | None:
    return None if moment_s is None else now - moment_s
