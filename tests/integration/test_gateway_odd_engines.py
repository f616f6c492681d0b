"""Engines that say odd things, or nothing, or close connections: nobody else notices, and no call is lost for it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from starlette.responses import StreamingResponse

from agentix.gateway.admission_settings import AdmissionSettings
from asgi_calls import ask
from fake_engine import USAGE, FakeEngine, served, sse
from faulty_engine import Mortal
from gateway_system import System, eventually, gateway
from odd_engine import OddEngine, closes_under_a_call

P = {"X-Agentix-Program": "p", "X-Agentix-Call": "1"}


@pytest.mark.parametrize(
    "models",
    [
        {"data": [{"id": "fake", "owned_by": ["vllm"]}]},
        {"data": [{"id": "fake", "owned_by": {"a": 1}, "max_model_len": [4096]}]},
        {"data": [{"id": "fake", "max_model_len": -5}, {"id": ["fake"]}, 7]},
        {"data": [{"id": "fake", "max_model_len": True, "owned_by": None}]},
    ],
)
async def test_a_list_of_models_that_makes_no_sense_does_not_end_the_watch(models: Any) -> None:
    engine = OddEngine(listed=models)
    async with gateway(engine, health_period_s=0.02) as system:
        await eventually(lambda: engine.num_health >= 3)
        assert (await system.chat(P)).status_code == 200
        engine.healthy = False
        await eventually(lambda: not system.app.state.pool.states["e0"].healthy)


@pytest.mark.parametrize("value", ["1e999", "NaN", "-1", "+Inf", "nonsense"])
async def test_gauges_that_make_no_sense_do_not_end_the_watch(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.gateway.concurrency._PERIOD_S", 0.01)
    monkeypatch.setattr("agentix.gateway.concurrency._ASK_AGAIN_S", 0.0)
    engine = OddEngine(gauges=f"vllm:num_requests_running {value}\n")
    async with gateway(engine) as system:
        queue = system.app.state.admission.turns.queue("e0")
        await eventually(lambda: engine.num_metrics >= 3)
        assert queue.limit.limit == math.inf
        engine.gauges = "vllm:num_requests_running 0\n"
        await eventually(lambda: queue.limit.limit == 16)


async def test_an_engine_that_hangs_does_not_delay_what_is_known_of_the_others() -> None:
    hung, other = OddEngine(silent=True), OddEngine()
    async with gateway(hung, other, health_period_s=0.02) as system:
        async with asyncio.timeout(2.0):  # the silence of one is bounded by five seconds
            await eventually(lambda: other.num_health >= 10)
            other.healthy = False
            await eventually(lambda: not system.app.state.pool.states["e1"].healthy)
        assert hung.num_health == 1


async def test_an_engine_that_comes_back_under_its_old_name_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.gateway.concurrency._PERIOD_S", 0.01)
    engine = OddEngine(priority=True)
    async with gateway(engine) as system:
        turns = system.app.state.admission.turns
        await eventually(lambda: turns.queue("e0").tier == 1)
        url = (await system.client.delete("/v1/engines/e0")).json()["url"]
        assert not turns.queues
        assert (await system.client.post("/v1/engines", json={"id": "e0", "url": url})).json()["takes_calls"]
        await eventually(lambda: turns.queue("e0").tier == 1)


async def test_a_new_engine_gets_no_call_before_it_has_told_its_models() -> None:
    """Although one waits that nobody else can take: its model is another one."""
    engine, late = FakeEngine(mode="hang"), OddEngine(listed={"data": [{"id": "another"}]})
    async with gateway(engine, admission=AdmissionSettings(max_concurrency=1)) as system, served(late.app) as url:
        await system.models_known()
        first = asyncio.create_task(system.chat(P))
        await eventually(lambda: engine.num_active == 1)
        second = asyncio.create_task(system.chat({"X-Agentix-Program": "q"}))
        await eventually(lambda: len(system.table.calls) == 2)
        await system.client.post("/v1/engines/e0/drain", json={})
        added = (await system.client.post("/v1/engines", json={"id": "late", "url": url})).json()
        assert (added["takes_calls"], added["models"]) == (True, ["another"])
        assert late.requests == []
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await eventually(lambda: not system.table.calls)


@asynccontextmanager
async def engine_that_closes(closes: Callable[[int, int], bool]) -> AsyncIterator[tuple[System, list[int]]]:
    async with closes_under_a_call(closes) as (url, num_calls), gateway(extra=(url,), health_period_s=60) as system:
        yield system, num_calls


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_the_engine_closes_under_a_call_costs_nothing(stream: bool) -> None:
    """The engine closes idle connections of its own; a call that comes at that moment goes over another one."""
    async with engine_that_closes(lambda connection, request: connection == 0 and request == 1) as (system, num_calls):
        await system.chat(P)
        answer = await system.chat({**P, "X-Agentix-Call": "2"}, stream=stream)
        assert answer.status_code == 200
        assert num_calls == [2, 1]
        row = system.table.row("p")
        assert (row.num_finished, row.num_aborted) == (2, 0)
        assert system.app.state.pool.states["e0"].healthy


async def test_a_response_that_the_engine_would_keep_goes_over_another_connection_too() -> None:
    async with engine_that_closes(lambda connection, request: connection == 0 and request == 1) as (system, num_calls):
        for call_id in "12":
            answer = await system.post("/v1/responses", {"model": "m", "input": "hi"}, {**P, "X-Agentix-Call": call_id})
            assert answer.status_code == 200
        assert num_calls == [2, 1]


async def test_however_many_connections_are_closed_the_last_one_is_new() -> None:
    async with engine_that_closes(lambda _, request: request >= 1) as (system, num_calls):
        answers = await asyncio.gather(*(system.chat({**P, "X-Agentix-Call": f"a{n}"}) for n in range(4)))
        assert {a.status_code for a in answers} == {200}
        assert num_calls == [1, 1, 1, 1]
        assert (await system.chat({**P, "X-Agentix-Call": "b"})).status_code == 200
        assert num_calls == [2, 2, 2, 2, 1]


async def test_a_new_connection_that_breaks_off_is_a_call_that_is_lost() -> None:
    async with engine_that_closes(lambda *_: True) as (system, num_calls):
        assert (await system.chat(P)).status_code == 502
        assert num_calls == [1]


async def events(*said: bytes) -> Any:
    for event in said:
        yield event


WORD = sse({"choices": [{"index": 0, "delta": {"content": "a"}}]})
ERRORS = {
    "/v1/chat/completions": sse({"error": {"message": "EngineCore has died", "type": "InternalServerError", "code": 500}}),
    "/v1/responses": b"event: response.failed\n"
    + sse({"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {"code": "server_error"}}}),
    "/v1/messages": b"event: error\n" + sse({"type": "error", "error": {"type": "overloaded_error", "message": "full"}}),
}


@pytest.mark.parametrize("path", ERRORS)
@pytest.mark.parametrize("begun", [False, True])
async def test_a_stream_that_ends_with_an_error_has_not_finished(path: str, begun: bool) -> None:
    said = [*([WORD] if begun else []), ERRORS[path], b"data: [DONE]\n\n"]
    engine = FakeEngine(answer=StreamingResponse(events(*said), media_type="text/event-stream"))
    async with gateway(engine) as system:
        answer = await system.post(path, {"model": "fake", "stream": True, "store": False}, P)
        assert answer.content == b"".join(said), "the client gets what the engine has said, once"
        row = system.table.row("p")
        assert (row.num_finished, row.num_aborted) == (0, 1)
        metrics = (await system.client.get("/metrics")).text
        assert 'agentix_gateway_calls_total{engine="e0",outcome="refused"} 1.0' in metrics


async def test_nulls_where_errors_could_stand_are_none() -> None:
    last = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "error": None, "usage": USAGE})
    said = [WORD, last, b"data: [DONE]\n\n"]
    engine = FakeEngine(answer=StreamingResponse(events(*said), media_type="text/event-stream"))
    async with gateway(engine) as system:
        await system.chat(P, stream=True)
        assert system.table.row("p").num_finished == 1


async def test_errors_within_streams_open_the_breaker() -> None:
    async with gateway(FakeEngine()) as system:
        engine = system.engines[0]
        for n in range(3):
            said = [WORD, ERRORS["/v1/chat/completions"], b"data: [DONE]\n\n"]
            engine.answer = StreamingResponse(events(*said), media_type="text/event-stream")
            await system.chat({"X-Agentix-Program": f"p{n}"}, stream=True)
        assert (await system.client.get("/v1/engines/e0")).json()["breaker"] == "open"


async def active_when_told(system: System, **body: Any) -> list[int]:
    """Make a call that fails; gives how many calls were active as each piece of its answer that speaks of an error was sent."""
    active: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def note(message: Any) -> None:
            if b"error" in message.get("body", b""):
                active.append(len(system.table.calls))
            await send(message)

        await system.app(scope, receive, note)

    said = json.dumps({"model": "fake", "messages": [], **body}).encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in P.items()]
    await ask(cast("Any", app), "POST", "/v1/chat/completions", [said], headers=headers)
    return active


@pytest.mark.parametrize("fault", ["breaks off", "tells of an error", "dies", "is cancelled"])
async def test_the_books_are_closed_before_the_client_hears_of_the_error(fault: str) -> None:
    engine = {"breaks off": FakeEngine(mode="break"), "dies": Mortal(num_events=0)}.get(fault, FakeEngine(mode="hang"))
    if fault == "tells of an error":
        said = WORD, ERRORS["/v1/chat/completions"]
        engine.answer = StreamingResponse(events(*said), media_type="text/event-stream")
    async with gateway(engine) as system:
        call = asyncio.create_task(active_when_told(system, stream=fault != "is cancelled"))
        if fault == "is cancelled":
            await eventually(lambda: engine.num_active == 1)
            await system.client.post("/v1/programs/p/cancel")
        assert await call == [0]
        assert system.table.row("p").num_aborted == 1


async def test_a_call_that_is_over_cannot_be_taken_for_the_next_of_its_name() -> None:
    """The engine closes a stream late; until then its client has begun another call with the same id, which is cancelled."""
    closing = asyncio.Event()

    async def ends_late() -> Any:
        yield WORD
        yield b"data: [DONE]\n\n"
        await closing.wait()

    engine = FakeEngine(answer=StreamingResponse(ends_late(), media_type="text/event-stream"))
    async with gateway(engine) as system:
        request = system.client.stream("POST", "/v1/chat/completions", json={"model": "fake", "stream": True}, headers=P)
        async with request as answer:
            pieces = answer.aiter_raw()
            while b"[DONE]" not in await anext(pieces):
                pass
            assert not system.table.calls
            engine.answer, engine.mode = None, "hang"
            second = asyncio.create_task(system.chat(P))
            await eventually(lambda: engine.num_active == 1)
            closing.set()
            async for _ in pieces:
                pass
        cancelled = await system.client.post("/v1/programs/p/cancel")
        assert cancelled.json()["cancelled"] == ["1"]
        assert (await second).status_code == 499


async def test_health_and_the_engines_api_say_the_same() -> None:
    async with gateway(FakeEngine(), FakeEngine()) as system:
        await system.models_known()
        health = (await system.client.get("/health")).json()
        listed = (await system.client.get("/v1/engines")).json()
        assert health["engines"] == listed["data"]
