"""A program too large for its home, over real sockets: its calls spread, others leave, and both are said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway

PROMPT = "word " * 3200  # 4,000 tokens by the rule of four characters each
TIMES = {"queue_time_ms": 0.0, "time_to_first_token_ms": 40.0, "generation_time_ms": 960.0}


@dataclass
class SlottedEngine:
    """Computes `slots` calls at a time, each until it is let go, and tells its load and what calls took, as vLLM does."""

    slots: int = 4
    order: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/v1/models", FakeEngine().models),
                Route("/health", FakeEngine().health),
                Route("/metrics", self.metrics),
            ]
        )

    async def complete(self, request: Request) -> Response:
        call_id, body = request.headers["x-request-id"], await request.json()
        self.order.append(call_id)
        gate = self.gates[call_id] = asyncio.Event()
        await gate.wait()
        del self.gates[call_id]
        num_tokens = sum(len(message["content"]) for message in body["messages"]) // 4
        usage = {"prompt_tokens": num_tokens, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
        return JSONResponse({"choices": [{"index": 0, "message": {"content": "x"}}], "usage": usage, "metrics": TIMES})

    async def metrics(self, request: Request) -> Response:
        running = min(self.slots, len(self.gates))
        waiting = len(self.gates) - running
        return PlainTextResponse(f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n")

    def let_go(self) -> None:
        for gate in self.gates.values():
            gate.set()


def call(system: System, program_id: str, number: int) -> asyncio.Task[httpx2.Response]:
    headers = {"X-Agentix-Program": program_id, "X-Request-Id": f"{program_id}-{number}"}
    return asyncio.create_task(system.chat(headers, messages=[{"role": "user", "content": PROMPT}]))


async def settle(system: System, *engines: SlottedEngine, num_calls: int) -> None:
    """Wait until so many calls are in the engines, and the gateway has been told so."""
    await eventually(lambda: sum(len(e.gates) for e in engines) == num_calls)
    gauges = [state.gauge for state in system.app.state.pool.states.values()]
    expected = [max(0, len(e.gates) - e.slots) for e in engines]
    await eventually(lambda: [g._num_waiting for g in gauges] == expected)


async def metric(system: System, name: str) -> dict[str, float]:
    """Samples of a metric by their labels."""
    lines = (await system.client.get("/metrics")).text.splitlines()
    samples = (line.removeprefix(f"agentix_gateway_{name}").rpartition(" ") for line in lines if f"_{name}{{" in line)
    return {labels: float(value) for labels, _, value in samples}


@pytest.mark.parametrize("plugin", [False, True], ids=["tier 0", "plug-in"])
async def test_a_huge_parallel_program_leaves_its_home_and_others_do_not_wait_for_it(
    plugin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentix.gateway.concurrency._PERIOD_S", 0.02)
    monkeypatch.setattr("agentix.gateway.engines.SLOW_START_S", 0.001)
    engines = SlottedEngine(), SlottedEngine()
    settings: dict[str, Any] = {} if plugin else {"max_concurrency": 4}
    async with gateway(*engines, plugin=plugin, admission=AdmissionSettings(**settings)) as system:
        await system.models_known()
        first = [call(system, program_id, 0) for program_id in ("talk", "wide")]
        await settle(system, *engines, num_calls=2)
        for engine in engines:
            engine.let_go()
        await asyncio.gather(*first)
        home = system.table.row("wide").home_engine_id
        system.table.row("talk").home_engine_id = home  # both live there, say
        waiting = []
        for number in range(1, 21):
            waiting.append(call(system, "wide", number))
            await eventually(lambda: len(system.table.calls) == len(waiting))
            if plugin:  # the queue is in the engine, so it has to be asked
                await settle(system, *engines, num_calls=number)
        engine_ids = [c.engine_id for c in system.table.calls.values()]
        assert sorted(engine_ids.count(e) for e in ("e0", "e1")) == [10, 10], "not all at home"
        row = await system.program("wide")
        assert (row["home_engine_id"], row["moved"]) == (home, None)
        because = {c["routed_because"] for c in row["threads"][""]}
        assert {"home", "moved: 0.25 s wait at home, 0.00 s here; price 0.03 s"} & because
        assert (await metric(system, "moves_total")) == {f'{{engine="{home}",reason="away"}}': 10.0}
        num_held, num_inside = [sum((await metric(system, name)).values()) for name in ("held_calls", "engine_waiting_calls")]
        assert (num_held, num_inside) == ((0, 12) if plugin else (12, 0))
        while system.table.calls:
            for engine in engines:
                engine.let_go()
            await asyncio.sleep(0.01)
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200] * 20
        assert {system.table.row(p).home_engine_id for p in ("talk", "wide")} == {home}


async def test_a_conversation_that_moves_says_so_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.gateway.engines.SLOW_START_S", 0.001)
    monkeypatch.setattr("agentix.gateway.rebalancing._PERIOD_S", 3600.0)  # or nobody would be held for long
    engines = SlottedEngine(), SlottedEngine()
    async with gateway(*engines, admission=AdmissionSettings(max_concurrency=4)) as system:
        await system.models_known()
        first = [call(system, program_id, 0) for program_id in ("talk", "busy")]
        await eventually(lambda: sum(len(e.gates) for e in engines) == 2)
        for engine in engines:
            engine.let_go()
        await asyncio.gather(*first)
        home = system.table.row("talk").home_engine_id
        other = {"e0": "e1", "e1": "e0"}[home or ""]
        crowd = []
        for number in range(8):
            name = f"crowd{number}"
            await system.client.post("/v1/programs", json={"program_id": name})
            system.table.row(name).home_engine_id = home
            crowd.append(call(system, name, 0))
            await eventually(lambda: len(system.table.calls) == len(crowd))
        last = [call(system, "talk", 1)]
        await eventually(lambda: len(system.table.calls) == 9)
        row = await system.program("talk")
        assert row["home_engine_id"] == other
        assert (row["moved"]["from"], row["moved"]["to"]) == (home, other)
        assert row["moved"]["because"] == row["threads"][""][0]["routed_because"]
        assert row["moved"]["because"].startswith("moved: ")
        while system.table.calls:
            for engine in engines:
                engine.let_go()
            await asyncio.sleep(0.01)
        new_home = engines[int(other[1])]
        for number in (2, 3):
            last.append(call(system, "talk", number))
            await eventually(lambda: len(system.table.calls) == 1)
            assert next(iter(system.table.calls.values())).engine_id == other
            await eventually(lambda: len(new_home.gates) == 1)
            new_home.let_go()
            await last[-1]
        assert [answer.status_code for answer in await asyncio.gather(*crowd, *last)] == [200] * 11
        assert (await metric(system, "moves_total"))[f'{{engine="{home}",reason="queue"}}'] >= 1
