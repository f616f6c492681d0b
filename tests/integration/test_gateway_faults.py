"""Engines that die: calls without an answer move, others end with an error of their API; none is lost or answered twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from fake_engine import FakeEngine, sse
from faulty_engine import NUM_WORDS, Mortal, engine_process, hangs_up
from gateway_system import CHAT, System, eventually, gateway

IN_ORDER = "least_used"  # of idle engines the first
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
P = {"X-Agentix-Program": "p"}


async def figures(system: System) -> tuple[int, int, list[str]]:
    """What the table says of program p: calls finished and aborted, engines used. No call is left in it."""
    assert not system.table.calls
    system.table.validate()
    row = await system.program("p")
    return row["num_finished"], row["num_aborted"], row["engine_ids"]


def last_event(content: bytes) -> tuple[str, Any]:
    """Name and data of the last event of a stream."""
    lines = content.strip().split(b"\n\n")[-1].decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    return fields.get("event", ""), json.loads(fields["data"])


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_that_dies_ends_with_the_error_of_its_api(path: str) -> None:
    spare = FakeEngine()
    async with gateway(Mortal(), spare, balancer=IN_ORDER) as system:
        response = await system.post(path, {"model": "fake", "stream": True, "store": False}, P)
        name, data = last_event(response.content)
        assert response.status_code == 200
        assert response.content.count(b'"a"') == 1  # what had come was passed on
        if path == "/v1/messages":
            assert (name, data["type"], data["error"]["type"]) == ("error", "error", "api_error")
            assert "broke off" in data["error"]["message"]
        elif path == "/v1/responses":
            assert (name, data["type"], data["code"]) == ("error", "error", "server_error")
            assert "broke off" in data["message"]
        else:
            assert (name, data["error"]["code"], data["error"]["type"]) == ("", 502, "server_error")
            assert "broke off" in data["error"]["message"]
        assert spare.requests == []
        assert await figures(system) == (0, 1, ["e0"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_a_call_that_has_no_answer_yet_moves(path: str, stream: bool) -> None:
    mortal, spare = Mortal(num_events=0), FakeEngine()
    async with gateway(mortal, spare, balancer=IN_ORDER) as system:
        response = await system.post(path, {"model": "fake", "stream": stream, "store": False}, P)
        assert (response.status_code, response.headers["x-agentix-engine"]) == (200, "e1")
        assert b"error" not in response.content
        assert (len(mortal.requests), len(spare.requests)) == (1, 1)
        assert await figures(system) == (1, 0, ["e0", "e1"])


async def test_a_connection_that_breaks_before_there_is_an_answer_moves_the_call() -> None:
    async with hangs_up() as (url, posts), gateway(FakeEngine(), extra=(url,), health_period_s=60, balancer=IN_ORDER) as system:
        response = await system.chat(P)
        assert (response.status_code, response.headers["x-agentix-engine"]) == (200, "e1")
        assert len(posts) == 1
        assert await figures(system) == (1, 0, ["e0", "e1"])


@pytest.mark.parametrize("extra", [{}, {"store": True}, {"store": False, "background": True}])
async def test_a_response_that_an_engine_may_have_stored_does_not_move(extra: dict[str, Any]) -> None:
    mortal, spare = Mortal(num_events=0), FakeEngine()
    async with gateway(mortal, spare, balancer=IN_ORDER) as system:
        response = await system.post("/v1/responses", {"model": "fake", "stream": True, **extra}, P)
        assert response.status_code == 502
        assert "broke off" in response.json()["error"]["message"]
        assert spare.requests == []
        assert await figures(system) == (0, 1, ["e0"])


async def test_the_last_engine_s_own_error_passes() -> None:
    mortals = [Mortal(status=500), Mortal(status=503)]
    async with gateway(*mortals, balancer=IN_ORDER) as system:
        response = await system.chat(P)
        assert (response.status_code, response.json()) == (503, {"error": {"message": "the engine core has died"}})
        assert [len(m.requests) for m in mortals] == [1, 1]
        assert await figures(system) == (0, 1, ["e0", "e1"])


async def test_an_error_as_the_first_event_of_a_stream_moves_the_call_unless_the_client_is_at_fault() -> None:
    async def events(code: int) -> Any:
        yield sse({"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": code}})
        yield b"data: [DONE]\n\n"

    for code, served_by in ((500, "e1"), (400, "e0")):
        first = FakeEngine(answer=StreamingResponse(events(code), media_type="text/event-stream"))
        async with gateway(first, FakeEngine(), balancer=IN_ORDER) as system:
            response = await system.chat(P, stream=True)
            assert response.headers["x-agentix-engine"] == served_by
            assert (b"EngineCore" in response.content) == (code == 400)


async def test_a_call_that_engines_die_of_is_not_given_to_all_of_them() -> None:
    engines = [Mortal(num_events=0) for _ in range(5)]
    async with gateway(*engines, balancer=IN_ORDER) as system:
        response = await system.chat(P, stream=True)
        assert response.status_code == 502
        assert sorted(len(e.requests) for e in engines) == [0, 0, 1, 1, 1]
        finished, aborted, _ = await figures(system)
        assert (finished, aborted) == (0, 1)


async def test_an_engine_that_fails_several_programs_gets_no_calls_for_a_while() -> None:
    mortal, spare = Mortal(), FakeEngine()
    async with gateway(mortal, spare, balancer="round_robin") as system:
        for n in range(12):
            assert (await system.chat({"X-Agentix-Program": f"p{n}"})).status_code == 200
        assert len(mortal.requests) == 3
        shown = (await system.client.get("/v1/engines/e0")).json()
        assert (shown["breaker"], shown["takes_calls"], shown["healthy"]) == ("open", False, True)


async def test_a_refusal_is_no_failure() -> None:
    engine = FakeEngine(answer=JSONResponse({"error": {"message": "no"}}, 400))
    async with gateway(engine) as system:
        for n in range(20):
            assert (await system.chat({"X-Agentix-Program": f"p{n}"})).status_code == 400
        assert len(engine.requests) == 20


async def test_kill_9_of_one_of_two_engines_under_load(tmp_path: Path) -> None:
    logs = [tmp_path / "e0", tmp_path / "e1"]
    async with (
        engine_process(logs[0]) as (url0, victim),
        engine_process(logs[1]) as (url1, _),
        gateway(extra=(url0, url1), balancer="round_robin", health_period_s=0.2) as system,
    ):
        await system.models_known()
        calls = [asyncio.create_task(one(system, f"p{n % 40}", f"c{n}", stream=n % 2 == 0)) for n in range(200)]
        await eventually(lambda: logs[0].exists() and logs[0].read_text().count("took") >= 20)
        victim.kill()
        outcomes = Counter(await asyncio.gather(*calls))
        rows = (await system.client.get("/v1/programs?limit=1000")).json()["data"]
        assert not system.table.calls
        system.table.validate()
    words = Counter(logs[0].read_text().split())
    assert words["took"] > words["done"]  # it died in the middle of calls
    counted = Counter(line for log in logs if log.exists() for line in log.read_text().splitlines())
    assert set(outcomes) <= {"ok", "error"}
    assert outcomes["ok"] + outcomes["error"] == 200
    assert outcomes["ok"] >= 100  # the survivor's share, at the least
    assert sum(r["num_finished"] for r in rows) == outcomes["ok"]
    assert sum(r["num_aborted"] for r in rows) == outcomes["error"]
    assert max(counted[f"took c{n}"] for n in range(200)) <= 2
    survivor = Counter(logs[1].read_text().splitlines())
    assert max(survivor.values()) == 1  # nothing is computed twice by the engine that lives


async def one(system: System, program_id: str, call_id: str, *, stream: bool) -> str:
    """One call; `ok` if its answer is whole, `error` if it ends with one clear error, else what it got."""
    headers = {"X-Agentix-Program": program_id, "X-Agentix-Call": call_id}
    try:
        response: Response | httpx2.Response = await system.client.post(
            "/v1/chat/completions", json={**CHAT, "stream": stream, "user": call_id}, headers=headers, timeout=30.0
        )
    except httpx2.HTTPError as error:
        return repr(error)
    assert isinstance(response, httpx2.Response)
    if response.status_code != 200:
        return "error" if response.status_code in {502, 503} and response.json()["error"]["message"] else response.text
    if not stream:
        return "ok" if response.json()["choices"][0]["message"]["content"] == "w" * NUM_WORDS else response.text
    events = response.content.strip().split(b"\n\n")
    if len(events) == NUM_WORDS + 1 and events[-1] == b"data: [DONE]":
        return "ok"
    errors = [e for e in events if b'"error"' in e]
    return "error" if len(errors) == 1 and events[-1] == errors[0] else response.text
