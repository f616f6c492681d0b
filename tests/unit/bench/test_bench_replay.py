"""Replay on a virtual clock: what is sent, when, and what becomes of failures. One output token takes one second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentix.bench.config import BenchConfig
from agentix.bench.plan import Plan, PlannedProgram
from agentix.bench.recorder import Progress, Recorder
from agentix.bench.replay import Replay
from agentix.bench.target import open_target
from agentix.metrics import CallRecord, ProgramRecord, Status, jct_s, tpot_s, ttft_s
from agentix.workload import Call, Program, thread_ids
from fake_openai import FakeOpenAI, VirtualClock


def call(call_id: str, *parents: str, tokens: int = 1, gap_s: float | None = None, **fields: Any) -> Call:
    message = {"role": "user", "content": f"say {call_id}"}
    values: dict[str, Any] = {"prompt_tokens": 5, "messages": (message,), "output_tokens": tokens, "tool_gap_s": gap_s}
    return Call(call_id=call_id, parents=parents, **values | fields)


def plan(*programs: tuple[float, list[Call]]) -> Plan:
    planned = []
    for index, (arrival_s, calls) in enumerate(programs):
        source = Program(program_id=f"x{index}", workload="w", calls=tuple(calls))
        planned.append(PlannedProgram(program_id=f"p{index}", arrival_s=arrival_s, source=source, threads=thread_ids(source)))
    return Plan(programs=tuple(planned), num_skipped_too_long=0, num_repeated=0)


CONFIG = BenchConfig(
    target="http://fake/v1/", workload=Path("w"), out=Path("out.json"), num_programs=1, rate_per_s=1, seed=0, api_key="k3y"
)


async def replay(
    fake: FakeOpenAI, made: Plan, *, config: BenchConfig = CONFIG, on_progress: Callable[[Progress], None] | None = None
) -> list[ProgramRecord]:
    recorder = Recorder(made, on_progress=on_progress)
    async with open_target(config, clock=fake.clock, transport=fake.transport) as target:
        run = Replay(made, server=target, recorder=recorder, clock=fake.clock, model="tiny", end_programs=config.end_programs)
        await run.run()
    return recorder.records()


def statuses(program: ProgramRecord) -> dict[str, str]:
    return {record.call_id: record.status.value for record in program.calls}


async def test_calls_wait_for_all_parents_and_their_gaps(fake: FakeOpenAI) -> None:
    calls = [
        call("r", tokens=2, gap_s=1.0),  # 0 … 2, children from 3
        call("a", "r", tokens=4),  # 3 … 7
        call("b", "r", tokens=1, gap_s=10.0),  # 3 … 4, its gap ends at 14
        call("z", "a", "b", tokens=1),  # 14 … 15
    ]
    (program,) = await replay(fake, plan((0.0, calls)))
    assert fake.starts == [("r", 0.0), ("a", 3.0), ("b", 3.0), ("z", 14.0)]
    assert program.status is Status.OK
    assert jct_s(program) == 15.0
    assert fake.ended == ["p0"]


async def test_programs_start_at_their_arrivals_whatever_the_server_does(fake: FakeOpenAI) -> None:
    programs = await replay(fake, plan((0.0, [call("a", tokens=50)]), (2.5, [call("b")]), (4.0, [call("c")])))
    assert fake.starts == [("a", 0.0), ("b", 2.5), ("c", 4.0)]
    assert [jct_s(program) for program in programs] == [50.0, 1.0, 1.0]
    assert fake.ended == ["p1", "p2", "p0"]


async def test_a_record_holds_times_and_the_servers_counts(fake: FakeOpenAI) -> None:
    (program,) = await replay(fake, plan((3.0, [call("a", tokens=4)])))
    assert program.calls == (
        CallRecord(
            program_id="p0",
            call_id="a",
            thread_id="t0",
            parents=(),
            status=Status.OK,
            max_tokens=4,
            trace_prompt_tokens=5,
            ready_s=3.0,
            sent_s=3.0,
            first_token_s=4.0,
            last_token_s=7.0,
            end_s=7.0,
            prompt_tokens=9,
            cached_tokens=4,
            output_tokens=4,
        ),
    )
    assert (ttft_s(program.calls[0]), tpot_s(program.calls[0])) == (1.0, 1.0)


async def test_what_is_sent(fake: FakeOpenAI) -> None:
    root = call("a,1", output_text="done", messages=({"role": "user", "content": "go"},))
    tool = call("b", "a,1", inherits=True, messages=({"role": "tool", "content": "42"},), tokens=3)
    await replay(fake, plan((0.0, [root, tool, call("c", "a,1", "b", output_tokens=0)])))
    requests = {r.headers["x-agentix-call"]: r for _, r in fake.requests}
    assert str(requests["b"].url) == "http://fake/v1/chat/completions"
    assert json.loads(requests["b"].content) == {
        "model": "tiny",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "42"},
        ],
        "max_tokens": 3,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert requests["b"].headers["authorization"] == "Bearer k3y"
    identity = ("x-agentix-program", "x-session-id", "x-agentix-thread", "x-agentix-parent")
    assert [requests["b"].headers[name] for name in identity] == ["p0", "p0", "t0", "a%2C1"]
    assert requests["c"].headers["x-agentix-parent"] == "a%2C1,b"
    assert requests["a%2C1"].headers["x-agentix-parent"] == ""  # a root, and known to be one
    assert json.loads(requests["c"].content)["max_tokens"] == 1


async def test_without_usage_there_is_no_count(fake: FakeOpenAI) -> None:
    fake.sends_usage = False
    (program,) = await replay(fake, plan((0.0, [call("a", tokens=2)])))
    assert program.status is Status.OK
    assert program.calls[0].output_tokens is None


def refused(status: int = 503, body: str = '{"error": {"message": "queue is full for k3y"}}') -> httpx2.Response:
    return httpx2.Response(status, content=body)


def unreachable() -> httpx2.Response:
    raise httpx2.ConnectError("connection refused (k3y)")


async def stream(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def streaming(*parts: bytes) -> Callable[[], httpx2.Response]:
    return lambda: httpx2.Response(200, content=stream(*parts))


FAULTS: dict[str, tuple[Callable[[], httpx2.Response], str]] = {
    "http error": (refused, "HTTP 503: queue is full for ***"),
    "http error in plain text": (lambda: refused(500, "oops k3y"), "HTTP 500: oops ***"),
    "redirect": (lambda: refused(307, ""), "HTTP 307: "),
    "no connection": (unreachable, "ConnectError: connection refused (***)"),
    "cut stream": (
        streaming(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'),
        "broken stream: it ended before the answer did",
    ),
    "empty stream": (streaming(), "broken stream: it ended before the answer did"),
    "error in stream": (streaming(b'data: {"error": {"message": "k3y"}}\n\n'), "BrokenStream: error in stream: ***"),
    "not JSON": (
        streaming(b"data: {\n\n"),
        "BrokenStream: broken stream: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "not UTF-8": (
        streaming(b"data: \xff\n\n"),
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
}


@pytest.mark.parametrize(("fault", "error"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_failed_call_is_recorded_and_stops_its_program_only(
    fake: FakeOpenAI, fault: Callable[[], httpx2.Response], error: str
) -> None:
    fake.faults["bad"] = fault
    calls = [call("r"), call("long", "r", tokens=9), call("bad", "r"), call("z", "bad"), call("y", "long"), call("x", "z")]
    sick, healthy = await replay(fake, plan((0.0, calls), (0.0, [call("a", tokens=5), call("b", "a")])))
    not_run = dict.fromkeys("zyx", "not_run")
    assert statuses(sick) == {"r": "ok", "bad": "failed", "long": "ok", **not_run}
    assert sick.calls[2].error == error
    assert sick.status is Status.FAILED
    assert healthy.status is Status.OK
    assert sorted(fake.ended) == ["p0", "p1"]


async def test_a_call_in_its_gap_does_not_start_once_another_has_failed(fake: FakeOpenAI) -> None:
    fake.faults["bad"] = refused
    calls = [call("a", gap_s=5.0), call("b", "a"), call("c", tokens=3), call("bad", "c")]
    (program,) = await replay(fake, plan((0.0, calls)))
    assert statuses(program) == {"a": "ok", "b": "not_run", "c": "ok", "bad": "failed"}


async def test_a_timeout_is_a_failure(fake: FakeOpenAI) -> None:
    async def silence() -> AsyncIterator[bytes]:
        yield b": wait\n\n"
        await never.wait()

    never = asyncio.Event()
    fake.faults["a"] = lambda: httpx2.Response(200, content=silence())
    (program,) = await replay(fake, plan((0.0, [call("a")])), config=replace(CONFIG, timeout_s=0.01))
    assert program.calls[0].error == "timed out after 0.01 s"
    assert program.status is Status.FAILED


@pytest.mark.parametrize(
    ("status", "end_error"),
    [(200, None), (204, None), (404, None), (405, None), (501, None), (500, "HTTP 500: ")],
)
async def test_a_server_without_programs_is_fine(fake: FakeOpenAI, status: int, end_error: str | None) -> None:
    fake.end_status = status
    (program,) = await replay(fake, plan((0.0, [call("a")])))
    assert program.status is Status.OK
    assert program.end_error == end_error


async def test_programs_are_not_ended_if_told_so(fake: FakeOpenAI) -> None:
    await replay(fake, plan((0.0, [call("a")])), config=replace(CONFIG, end_programs=False))
    assert fake.ended == []


async def test_progress_counts_to_the_end(fake: FakeOpenAI) -> None:
    fake.faults["bad"] = refused
    seen: list[Progress] = []
    made = plan((0.0, [call("a", tokens=3), call("b", tokens=2)]), (1.0, [call("bad")]))
    await replay(fake, made, on_progress=seen.append)
    assert max(progress.num_calls_in_flight for progress in seen) == 3
    assert seen[-1] == Progress(num_programs=2, num_programs_done=2, num_calls_in_flight=0, num_failed_calls=1)


async def test_cancelled_calls_are_recorded_and_their_programs_ended(fake: FakeOpenAI, clock: VirtualClock) -> None:
    made = plan((0.0, [call("a"), call("b", "a", tokens=9), call("c", "b")]), (100.0, [call("d")]))
    recorder = Recorder(made)
    async with open_target(CONFIG, clock=clock, transport=fake.transport) as target:
        run = asyncio.create_task(Replay(made, server=target, recorder=recorder, clock=clock, model="tiny").run())
        await clock.sleep(4.5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    first, second = recorder.records()
    assert statuses(first) == {"a": "ok", "b": "cancelled", "c": "not_run"}
    assert (first.calls[1].sent_s, first.calls[1].end_s) == (1.0, 4.5)
    assert (first.status, second.status) == (Status.CANCELLED, Status.NOT_RUN)
    assert fake.ended == ["p0"]
