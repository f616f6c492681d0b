"""Open-loop replay: programs start at their arrival times whatever the server does; calls follow the program's DAG."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agentix import wire
from agentix.bench.clock import Clock
from agentix.bench.messages import normalise
from agentix.bench.plan import Plan, PlannedProgram, header_safe
from agentix.bench.recorder import Recorder, new_record
from agentix.bench.reply import Reply
from agentix.metrics import CallRecord, Status
from agentix.workload import Call, full_messages


class ChatServer(Protocol):
    """What a replay needs of a server."""

    async def chat(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send one call and read its answer to the end. Failures come back in `Reply.error`."""

    async def end_program(self, program_id: str) -> str | None:
        """Say that a program is over; returns what went wrong."""


class Replay:
    """One run of a plan. Calls start when all parents have ended well and their gaps have passed.

    Once a call of a program has failed, no further call of it starts; calls already in flight end by themselves. Other
    programs are not touched. There are no retries: a refused call is a failed call.
    """

    def __init__(
        self, plan: Plan, *, server: ChatServer, recorder: Recorder, clock: Clock, model: str, end_programs: bool = True
    ) -> None:
        self._plan = plan
        self._server = server
        self._recorder = recorder
        self._clock = clock
        self._model = model
        self._end_programs = end_programs
        self._failed: set[str] = set()  # ids of programs with a failed call
        self._start_s = clock.now()

    async def run(self) -> None:
        """Run every program to its end. On cancellation calls in flight are recorded as cancelled, then it raises."""
        self._start_s = self._clock.now()
        async with asyncio.TaskGroup() as programs:
            for program in self._plan.programs:
                programs.create_task(self._run_program(program))

    async def _run_program(self, program: PlannedProgram) -> None:
        await self._sleep_until(program.arrival_s)
        end_error: str | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks: dict[str, asyncio.Task[CallRecord]] = {}
                for call in program.source.calls:
                    parents = [tasks[parent] for parent in call.parents]
                    tasks[call.call_id] = group.create_task(self._run_call(program, call, parents))
        finally:
            if self._end_programs:
                end_error = await self._server.end_program(program.program_id)
            self._recorder.program_ended(program.program_id, end_error=end_error)

    async def _run_call(self, program: PlannedProgram, call: Call, parents: Sequence[asyncio.Task[CallRecord]]) -> CallRecord:
        ended = [await parent for parent in parents]
        record = new_record(program, call)
        if any(parent.status is not Status.OK for parent in ended):
            return record
        record = replace(record, ready_s=_ready_s(program, ended))
        await self._sleep_until(record.ready_s or 0.0)
        if program.program_id in self._failed:
            return new_record(program, call)
        return await self._send(program, call, record)

    async def _send(self, program: PlannedProgram, call: Call, record: CallRecord) -> CallRecord:
        body = request_body(program, call, model=self._model)
        headers = request_headers(program, call)
        record = replace(record, sent_s=self._now_s())
        self._recorder.call_started()
        try:
            record = self._finished(record, await self._server.chat(body, headers))
        except asyncio.CancelledError:
            record = replace(record, status=Status.CANCELLED, end_s=self._now_s())
            raise
        finally:
            self._recorder.call_ended(record)
        if record.status is Status.FAILED:
            self._failed.add(program.program_id)
        return record

    def _finished(self, record: CallRecord, reply: Reply) -> CallRecord:
        return replace(
            record,
            status=Status.OK if reply.error is None else Status.FAILED,
            error=reply.error,
            first_token_s=self._since_start(reply.first_token_s),
            last_token_s=self._since_start(reply.last_token_s),
            end_s=self._since_start(reply.end_s),
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            output_tokens=reply.output_tokens,
        )

    def _now_s(self) -> float:
        return self._clock.now() - self._start_s

    def _since_start(self, clock_s: float | None) -> float | None:
        return None if clock_s is None else clock_s - self._start_s

    async def _sleep_until(self, due_s: float) -> None:
        wait_s = due_s - self._now_s()
        if wait_s > 0:
            await self._clock.sleep(wait_s)


def request_body(program: PlannedProgram, call: Call, *, model: str) -> dict[str, Any]:
    """The chat completion request: recorded messages, and an answer exactly as long as the recorded one."""
    return {
        "model": model,
        "messages": normalise(full_messages(program.source, call)),
        "max_tokens": call.max_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def request_headers(program: PlannedProgram, call: Call) -> dict[str, str]:
    """Who is calling: program, thread, call and parents for Agentix; the session for routers that know only that."""
    return {
        wire.PROGRAM_HEADER: program.program_id,
        wire.THREAD_HEADER: program.threads[call.call_id],
        wire.CALL_HEADER: header_safe(call.call_id),
        wire.PARENT_HEADER: ",".join(header_safe(parent) for parent in call.parents),  # empty: a root call
        wire.SESSION_HEADER: program.program_id,
    }


def _ready_s(program: PlannedProgram, parents: Sequence[CallRecord]) -> float:
    """r_c: a root is ready when its program arrives, another call when each parent has ended and its gap has passed."""
    ready = [(parent.end_s or 0.0) + (program.source.call(parent.call_id).tool_gap_s or 0.0) for parent in parents]
    return max(ready, default=program.arrival_s)
