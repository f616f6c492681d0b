"""Calls that the gateway holds, over real sockets: when they go, what their clients hear, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentix.core import SchedulerConfig
from agentix.core.events import CallArrived, CallFinished
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.dispatch import EngineBusy, send
from fake_engine import USAGE, FakeEngine, sse
from gateway_system import CHAT, System, eventually, gateway

PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


@dataclass
class GatedEngine:
    """Takes calls, and answers each when it is told to; tells its load like vLLM, if it is to: (running, waiting)."""

    load: tuple[int, int] | None = None
    priority: bool = False
    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                *(Route(path, self.complete, methods=["POST"]) for path in PATHS),
                Route("/v1/models", FakeEngine().models),
                Route("/health", FakeEngine().health),
                Route("/metrics", self.metrics),
                Route("/server_info", self.info),
            ]
        )

    async def complete(self, request: Request) -> Response:
        call_id = request.headers["x-request-id"]
        self.calls.append(call_id)
        self.headers.append(dict(request.headers))
        body, gate = await request.json(), self.open.setdefault(call_id, asyncio.Event())
        await gate.wait()
        if body.get("user") == "bad":
            return JSONResponse({"error": {"message": "no such thing"}}, 400)
        if body.get("stream"):
            return StreamingResponse(self.events(), media_type="text/event-stream")
        return JSONResponse({"choices": [{"index": 0, "message": {"content": "hi"}}], "usage": USAGE})

    async def events(self) -> AsyncIterator[bytes]:
        yield sse({"choices": [{"index": 0, "delta": {"content": "hi"}}]})
        yield b"data: [DONE]\n\n"

    async def metrics(self, request: Request) -> Response:
        if self.load is None:
            return PlainTextResponse("", 404)
        running, waiting = self.load
        return PlainTextResponse(
            f'vllm:num_requests_running{{engine="0"}} {running}.0\nvllm:num_requests_waiting{{engine="0"}} {waiting}.0\n'
        )

    async def info(self, request: Request) -> Response:
        policy = "priority" if self.priority else "fcfs"
        return JSONResponse({"vllm_config": {"scheduler_config": {"policy": policy}}})

    def answer(self, *call_ids: str) -> None:
        for call_id in call_ids:
            self.open[call_id].set()


def settings(**changes: Any) -> AdmissionSettings:
    scheduler = SchedulerConfig(policy="plas", quanta_s=(1.0, 2.0), starvation_ratio=None)
    return AdmissionSettings(**{"scheduler": scheduler, "max_concurrency": 1, **changes})


def call(system: System, call_id: str, path: str = PATHS[0], **body: Any) -> asyncio.Task[httpx2.Response]:
    """Start a call of the program that its first letter names."""
    headers = {"X-Agentix-Program": call_id[0], "X-Agentix-Call": call_id, "X-Request-Id": call_id}
    return asyncio.create_task(system.post(path, {**CHAT, **body}, headers))


async def held(system: System, *call_ids: str) -> None:
    """Wait until exactly these calls are held."""
    wanted = {f"{call_id[0]}/{call_id}" for call_id in call_ids}
    places = system.app.state.admission.places
    await eventually(lambda: {p.key for p in places.values() if p.sent_s is None} == wanted)


def had(system: System, program_id: str, service_s: float) -> None:
    """A program that has had so much service."""
    now = time.monotonic()
    system.table.apply(CallArrived(now=now, call_id=f"{program_id}/0", program_id=program_id))
    system.table.apply(CallFinished(now=now, call_id=f"{program_id}/0", service_s=service_s, waiting_s=0.0))


async def full_with_two_programs(system: System, engine: GatedEngine) -> asyncio.Task[httpx2.Response]:
    """`a` has had more than `b`; the call that comes back is of neither and is all that the engine takes."""
    had(system, "a", 5.0)
    had(system, "b", 1.5)
    first = call(system, "x1")
    await eventually(lambda: engine.calls == ["x1"])
    return first


def consistent(system: System) -> None:
    system.app.state.admission.validate()
    system.table.validate()


async def test_calls_go_in_program_order_and_tell_how_long_they_were_held() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings()) as system:
        tasks = [await full_with_two_programs(system, engine)]
        for call_id in ("a1", "b1", "c1"):
            tasks.append(call(system, call_id))
            await held(system, *("a1", "b1", "c1")[: len(tasks) - 1])
        row = await system.program("a")
        [waiting] = row["threads"][""]
        assert (waiting["state"], waiting["level"], waiting["position"]) == ("held", 2, 3)
        assert waiting["waits_for"] == "held: level 2, position 3 of e0; limit 1 in use"
        assert waiting["routed_because"] == "short prompt: least used"
        for call_id in ("x1", "c1", "b1", "a1"):
            await eventually(lambda: engine.calls[-1] == call_id)  # noqa: B023
            engine.answer(call_id)
        assert engine.calls == ["x1", "c1", "b1", "a1"], "least attained service first"
        answers = [await task for task in tasks]
        assert [answer.headers["x-agentix-level"] for answer in answers] == ["0", "2", "1", "0"]
        assert answers[0].headers["x-agentix-queue-ms"] == "0"
        assert int(answers[1].headers["x-agentix-queue-ms"]) > 0
        row = system.table.row("a")
        assert row.waiting_s > 0
        consistent(system)


async def test_a_call_to_an_engine_with_the_plugin_is_never_held() -> None:
    engine = GatedEngine()
    async with gateway(engine, plugin=True, admission=settings(max_concurrency=None)) as system:
        tasks = [call(system, f"a{n}") for n in range(40)]
        await eventually(lambda: len(engine.calls) == 40)
        [state] = (await system.client.get("/health")).json()["engines"]
        assert (state["tier"], state["num_held"]) == (2, 0)
        [[first, *_]] = (await system.program("a"))["threads"].values()
        assert (first["state"], first["waits_for"]) == ("sent", "in e0")
        engine.answer(*engine.calls)
        await asyncio.gather(*tasks)
        consistent(system)


async def test_the_limit_follows_the_engines_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.gateway.concurrency._PERIOD_S", 0.02)
    engine = GatedEngine(load=(0, 0))
    async with gateway(engine, admission=settings(max_concurrency=None)) as system:
        queue = system.app.state.admission.turns.queue("e0")
        await eventually(lambda: queue.limit.limit == 16)
        tasks = [call(system, f"a{n:02}") for n in range(40)]
        engine.load = (16, 0)
        await eventually(lambda: len(engine.calls) == 32 or queue.limit.limit >= 32)
        engine.load = (10, 22)  # 20 more than are to wait beside 10
        await eventually(lambda: queue.limit.limit <= 12)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await eventually(lambda: not system.table.calls)
        consistent(system)


async def test_an_engine_that_serves_by_priority_gets_levels_as_priorities() -> None:
    engine = GatedEngine(priority=True)
    async with gateway(engine, admission=settings(max_concurrency=2)) as system:
        queue = system.app.state.admission.turns.queue("e0")
        await eventually(lambda: queue.tier == 1)
        had(system, "b", 1.5)
        had(system, "c", 5.0)
        tasks = [call(system, "b1"), call(system, "c1", priority=-1)]
        await eventually(lambda: len(engine.calls) == 2)
        sent = dict(zip(engine.calls, (h["x-vllm-priority"] for h in engine.headers), strict=True))
        assert sent == {"b1": "1", "c1": "1"}, "c stands at level 2, and its client wants it one earlier"
        engine.answer("b1", "c1")
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_that_is_held_shows_signs_of_life(path: str) -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings(heartbeat_s=0.05)) as system:
        first = call(system, "x1")
        await eventually(lambda: engine.calls == ["x1"])
        second, third = call(system, "a1", path, stream=True), call(system, "a2", path, stream=True, user="bad")
        await held(system, "a1", "a2")
        await asyncio.sleep(0.2)
        engine.answer("x1")
        await eventually(lambda: engine.calls[-1] == "a1")
        engine.answer("a1")
        await eventually(lambda: engine.calls[-1] == "a2")
        engine.answer("a2")
        answer, failed, _ = await second, await third, await first
        assert answer.headers["x-agentix-program"] == "a"
        assert answer.content.startswith(b": agentix queue position=1 engine=e0\n\n")
        assert answer.content.endswith(b'"hi"}}]}\n\ndata: [DONE]\n\n')
        assert failed.status_code == 200, "it has begun: what goes wrong later is an event"
        assert failed.content.startswith(b": agentix queue position=2 engine=e0\n\n")
        last = json.loads(failed.content.strip().split(b"data: ")[-1])
        assert last.get("error", last)["message"] == "no such thing"
        consistent(system)


async def test_a_call_is_held_for_so_long_and_no_longer() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings(max_hold_s=0.2, heartbeat_s=0.05)) as system:
        first = call(system, "x1")
        await eventually(lambda: engine.calls == ["x1"])
        plain, stream = await asyncio.gather(call(system, "a1"), call(system, "b1", stream=True))
        assert (plain.status_code, plain.headers["retry-after"]) == (503, "1")
        error = plain.json()["error"]
        assert error["code"] == "held_too_long"
        assert "(held: level 0, position 1 of e0; limit 1 in use)" in error["message"]
        assert stream.status_code == 200
        assert b'"code": "held_too_long"' in stream.content.strip().split(b"\n\n")[-1]
        assert system.table.row("a").service_s == 0.0
        engine.answer("x1")
        assert (await first).status_code == 200
        assert engine.calls == ["x1"]
        consistent(system)


async def test_a_queue_that_is_full_refuses_at_once() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings(max_queue=1)) as system:
        tasks = [call(system, "x1")]
        await eventually(lambda: engine.calls == ["x1"])
        tasks.append(call(system, "a1"))
        await held(system, "a1")
        refused = await call(system, "b1")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "queue_full"
        assert "b" not in system.table.rows
        engine.answer("x1")
        await eventually(lambda: engine.calls == ["x1", "a1"])
        engine.answer("a1")
        assert [(await task).status_code for task in tasks] == [200, 200]


async def test_a_client_that_goes_away_leaves_the_queue() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings()) as system:
        first = call(system, "x1")
        await eventually(lambda: engine.calls == ["x1"])
        leaving, staying = call(system, "a1"), call(system, "b1")
        await held(system, "a1", "b1")
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        await held(system, "b1")
        row = system.table.row("a")
        assert (row.num_aborted, row.service_s) == (1, 0.0)
        engine.answer("x1")
        await eventually(lambda: engine.calls == ["x1", "b1"])
        engine.answer("b1")
        await asyncio.gather(first, staying)
        consistent(system)


async def test_a_program_is_paused_and_resumed() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings(max_concurrency=4)) as system:
        running = call(system, "a1")
        await eventually(lambda: engine.calls == ["a1"])
        paused = await system.client.post("/v1/programs/a/pause")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
        waiting = call(system, "a2")
        await held(system, "a2")
        calls = {c["call_id"]: c for thread in (await system.program("a"))["threads"].values() for c in thread}
        assert (calls["a1"]["state"], calls["a2"]["state"]) == ("sent", "held")
        assert (calls["a2"]["waits_for"], calls["a2"]["position"]) == ("paused", None)
        engine.answer("a1")
        assert (await running).status_code == 200, "what runs goes on"
        assert engine.calls == ["a1"]
        assert (await system.client.post("/v1/programs/a/resume")).json()["paused"] is False
        await eventually(lambda: engine.calls == ["a1", "a2"])
        engine.answer("a2")
        assert (await waiting).status_code == 200
        assert (await system.client.post("/v1/programs/none/pause")).status_code == 404
        consistent(system)


async def test_a_cancelled_program_leaves_the_queue_too() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings()) as system:
        first = call(system, "x1")
        await eventually(lambda: engine.calls == ["x1"])
        waiting = call(system, "a1")
        await held(system, "a1")
        assert (await system.client.post("/v1/programs/a/cancel")).json()["cancelled"] == ["a1"]
        assert (await waiting).status_code == 499
        await held(system)
        engine.answer("x1")
        await first
        consistent(system)


async def test_a_program_is_given_a_weight() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings()) as system:
        tasks = [await full_with_two_programs(system, engine)]
        tasks += [call(system, "a1"), call(system, "b1")]
        await held(system, "a1", "b1")
        heavier = await system.client.patch("/v1/programs/a", json={"weight": 8})
        assert (heavier.status_code, heavier.json()["weight"]) == (200, 8.0)
        for call_id in ("x1", "a1", "b1"):
            await eventually(lambda: engine.calls[-1] == call_id)  # noqa: B023
            engine.answer(call_id)
        await asyncio.gather(*tasks)
        assert engine.calls == ["x1", "a1", "b1"]
        for body in ({"weight": 0}, {"weight": "x"}, {"weight": True}, {"weight": 1e9}, {"wieght": 1}):
            bad = await system.client.patch("/v1/programs/a", json=body)
            assert (bad.status_code, bad.json()["error"]["param"]) == (400, next(iter(body)))
        assert (await system.program("a"))["weight"] == 8.0


async def test_calls_that_are_held_move_when_their_engine_takes_none() -> None:
    engines = [GatedEngine(), GatedEngine()]
    async with gateway(*engines, admission=settings()) as system:
        first, second = call(system, "x1"), call(system, "y1")
        await eventually(lambda: engines[0].calls == ["x1"] and engines[1].calls == ["y1"])
        waiting = call(system, "a1")
        await held(system, "a1")
        at = system.table.call("a/a1").engine_id
        system.app.state.pool.drain(system.app.state.pool.states[at])
        other = {"e0": "e1", "e1": "e0"}[at]
        assert system.table.call("a/a1").engine_id == other
        engines[int(other[1])].answer({"e0": "x1", "e1": "y1"}[other])
        await eventually(lambda: "a1" in engines[int(other[1])].calls)
        engines[int(other[1])].answer("a1")
        assert (await waiting).headers["x-agentix-engine"] == other
        engines[int(at[1])].answer({"e0": "x1", "e1": "y1"}[at])
        await asyncio.gather(first, second)
        consistent(system)


async def test_a_call_that_fits_no_engine_is_refused_before_it_waits() -> None:
    engine = GatedEngine()
    async with gateway(engine, admission=settings()) as system:
        await system.models_known()
        refused = await system.post("/v1/completions", {"model": "fake", "prompt": [1] * 4000, "max_tokens": 97})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        assert "4096 tokens" in refused.json()["error"]["message"]
        assert not system.table.rows
        assert engine.calls == []


async def test_an_engine_that_is_busy_gets_the_call_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    num_busy = 1
    async with gateway(engine, admission=settings(max_concurrency=None)) as system:

        async def busy_at_first(*args: Any, **kwargs: Any) -> Any:
            nonlocal num_busy
            if num_busy:
                num_busy -= 1
                raise EngineBusy("e0", 0.0)
            return await send(*args, **kwargs)

        monkeypatch.setattr("agentix.gateway.relay.send", busy_at_first)
        answer = await system.chat({"X-Agentix-Program": "p"})
        assert answer.status_code == 200
        assert (num_busy, len(engine.requests)) == (0, 1)
        assert system.table.row("p").num_finished == 1
        consistent(system)
