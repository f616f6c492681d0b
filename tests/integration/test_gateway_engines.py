"""Engines that come and go while the gateway runs: the engines API, drain, removal, slow start, the breaker's probe."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from agentix.cli import app as cli
from agentix.gateway import EngineTarget
from agentix.gateway.engines import SLOW_START_S, EnginePool
from fake_engine import FakeEngine, served
from gateway_system import CHAT, System, eventually, gateway

JSON = {"content-type": "application/json"}


async def engines(system: System) -> dict[str, Any]:
    return {e["id"]: e for e in (await system.client.get("/v1/engines")).json()["data"]}


async def test_engines_are_shown() -> None:
    async with gateway(FakeEngine(), plugin=True) as system:
        await system.models_known()
        await system.chat()
        shown = (await engines(system))["e0"]
        assert shown.pop("url").startswith("http://127.0.0.1:")
        assert shown.pop("limit") > 1000  # the plug-in orders what it has
        assert shown == {
            "object": "engine",
            "id": "e0",
            "takes_calls": True,
            "healthy": True,
            "breaker": "closed",
            "draining": False,
            "leaving": False,
            "program_scheduling": True,
            "hosted": False,
            "limits": {"num_in_flight": 0, "max_in_flight": None, "rate_share": 1.0, "closed_s": 0.0},
            "models": ["fake"],
            "num_calls": 0,
            "num_routed": 1,
            "tier": 2,
            "num_held": 0,
        }
        missing = await system.client.get("/v1/engines/e9")
        assert (missing.status_code, "known: e0" in missing.json()["error"]["message"]) == (404, True)


async def test_a_draining_engine_finishes_what_it_has_and_gets_no_more() -> None:
    first, second = FakeEngine(mode="hang"), FakeEngine()
    async with gateway(first, second, balancer="least_used") as system:
        call = asyncio.create_task(system.chat({"X-Agentix-Program": "p"}, stream=True))
        await eventually(lambda: first.num_active == 1)
        assert (await system.client.post("/v1/engines/e0/drain", json={})).json()["draining"]
        for _ in range(3):
            assert (await system.chat()).headers["x-agentix-engine"] == "e1"
        first.mode = "ok"
        assert (await call).status_code == 200
        assert len(first.requests) == 1
        shown = (await system.client.post("/v1/engines/e0/undrain", json={})).json()
        assert (shown["draining"], shown["takes_calls"]) == (False, True)


async def test_without_any_other_engine_a_draining_one_leaves_none() -> None:
    async with gateway(FakeEngine()) as system:
        await system.client.post("/v1/engines/e0/drain", json={})
        assert (await system.chat()).status_code == 503


async def test_an_engine_is_gone_when_its_last_call_is_over() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, FakeEngine(), balancer="least_used") as system:
        call = asyncio.create_task(system.chat({"X-Agentix-Program": "p"}, stream=True))
        await eventually(lambda: engine.num_active == 1)
        answer = await system.client.delete("/v1/engines/e0")
        assert (answer.status_code, answer.json()["removed"], answer.json()["num_calls"]) == (202, False, 1)
        assert (await engines(system))["e0"]["leaving"]
        engine.mode = "ok"
        assert (await call).status_code == 200
        await eventually(lambda: list(system.app.state.pool.states) == ["e1"])
        assert (await system.program("p"))["num_finished"] == 1
        assert (await system.client.delete("/v1/engines/e0")).status_code == 404
        gone = await system.client.delete("/v1/engines/e1")
        assert (gone.status_code, gone.json()["removed"]) == (200, True)
        assert (await system.chat()).status_code == 503
        assert (await system.client.get("/health")).status_code == 503


async def test_an_engine_cut_off_gives_back_calls_without_an_answer_and_breaks_the_others() -> None:
    engine, spare = FakeEngine(mode="hang"), FakeEngine()
    async with gateway(engine, spare, balancer="least_used") as system:
        streaming = asyncio.create_task(system.chat({"X-Agentix-Program": "p"}, stream=True))
        await eventually(lambda: engine.num_active == 1)
        await system.client.post("/v1/engines/e1/drain", json={})  # so that the second call goes to e0 too
        waiting = asyncio.create_task(system.chat({"X-Agentix-Program": "q"}))
        await eventually(lambda: engine.num_active == 2)
        await system.client.post("/v1/engines/e1/undrain", json={})
        await system.client.delete("/v1/engines/e0?now=true")
        last = (await streaming).content.strip().split(b"\n\n")[-1]
        assert "engine e0 was removed" in json.loads(last.removeprefix(b"data: "))["error"]["message"]
        moved = await waiting
        assert (moved.status_code, moved.headers["x-agentix-engine"]) == (200, "e1")
        await eventually(lambda: list(system.app.state.pool.states) == ["e1"] and engine.num_active == 0)
        assert (await system.program("p"))["num_aborted"] == 1
        row = await system.program("q")
        assert (row["num_finished"], row["engine_ids"]) == (1, ["e0", "e1"])


async def test_engines_come_and_go_under_load() -> None:
    async with gateway(FakeEngine(), balancer="round_robin") as system, served(FakeEngine().app) as url:
        stop = asyncio.Event()

        async def client(n: int) -> Counter[int]:
            statuses: Counter[int] = Counter()
            while not stop.is_set():
                statuses[(await system.chat({"X-Agentix-Program": f"p{n}"}, stream=n % 2 == 0)).status_code] += 1
            return statuses

        clients = [asyncio.create_task(client(n)) for n in range(8)]
        for _ in range(5):
            added = await system.client.post("/v1/engines", json={"id": "more", "url": url})
            assert added.status_code == 201
            await asyncio.sleep(0.05)
            await system.client.delete("/v1/engines/more")
            await eventually(lambda: "more" not in system.app.state.pool.states)
        stop.set()
        statuses = sum(await asyncio.gather(*clients), Counter())
        assert set(statuses) == {200}
        rows = (await system.client.get("/v1/programs")).json()["data"]
        assert sum(r["num_finished"] for r in rows) == statuses[200]
        assert sum(r["num_aborted"] for r in rows) == 0
        assert any("more" in r["engine_ids"] for r in rows)
        system.table.validate()
        system.app.state.admission.validate()
        await eventually(lambda: list(system.app.state.admission.turns.queues) == ["e0"])


async def test_a_program_at_home_on_a_removed_engine_moves_at_its_next_call() -> None:
    long = [{"role": "user", "content": "word " * 4000}]
    said = {"choices": [{"index": 0, "message": {"content": "a"}}]}  # no usage, from which it would learn that words are short
    engines = [FakeEngine(answer=JSONResponse(said)) for _ in range(2)]
    async with gateway(*engines) as system:
        for _ in range(2):
            await system.chat({"X-Agentix-Program": "p"}, messages=long)
        assert (await system.program("p"))["home_engine_id"] == "e0"
        await system.client.delete("/v1/engines/e0")
        assert (await system.chat({"X-Agentix-Program": "p"}, messages=long)).headers["x-agentix-engine"] == "e1"
        assert (await system.program("p"))["home_engine_id"] == "e1"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"id": "e0", "url": "http://127.0.0.1:9"}, 409, "there is an engine 'e0' already"),
        ({"url": "http://127.0.0.1:9"}, 400, "an engine's id is"),
        ({"id": "x", "url": "127.0.0.1"}, 400, "must start with http"),
        ({"id": "x", "url": "http://127.0.0.1:9", "tier": 2}, 400, "unknown field of engine 'x' 'tier'"),
        ({"id": "x", "url": "http://127.0.0.1:9", "api_key_env": "PATH"}, 400, "begins with AGENTIX_ENGINE_KEY"),
    ],
)
async def test_a_bad_engine_is_refused(body: dict[str, Any], status: int, message: str) -> None:
    async with gateway(FakeEngine()) as system:
        response = await system.client.post("/v1/engines", json=body)
        assert (response.status_code, message in response.json()["error"]["message"]) == (status, True)
        assert list(await engines(system)) == ["e0"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({**JSON, "origin": "http://evil.example"}, 403),
        ({**JSON, "origin": "null"}, 403),
        ({**JSON, "host": "evil.example", "origin": "http://evil.example"}, 403),  # a name that was pointed here
        ({**JSON, "host": "evil.example"}, 403),
        ({**JSON, "x-forwarded-for": "192.0.2.1"}, 403),  # a client elsewhere, behind a proxy here
        ({**JSON, "host": "localhost:8080", "origin": "http://localhost:8080"}, 200),
        ({**JSON, "host": "[::1]:8080"}, 200),
    ],
)
async def test_only_this_machine_s_operator_may_change_engines(headers: dict[str, str], status: int) -> None:
    async with gateway(FakeEngine()) as system:
        response = await system.client.post("/v1/engines/e0/drain", content=b"{}", headers=headers)
        assert response.status_code == status
        assert (await engines(system))["e0"]["draining"] == (status == 200)


async def test_an_engine_that_comes_takes_its_share_slowly() -> None:
    pool = EnginePool((EngineTarget(engine_id="old", url="http://old"),), httpx2.AsyncClient(), 1.0)
    pool.states["old"].num_calls, pool.states["old"].num_routed = 50, 1000
    new = pool.add(EngineTarget(engine_id="new", url="http://new"))
    assert [view.engine_id for view in pool.healthy()] == ["old"]
    pool._note_models(new, [{"id": "fake"}], adds=False)
    for passed, looks in ((0.0, 50), (0.5, 25), (0.8, 10), (1.0, 0)):
        new.since_s = time.monotonic() - passed * SLOW_START_S
        old_view, new_view = pool.healthy()
        assert (old_view.num_calls, old_view.num_routed) == (50, 1000)
        assert new_view.num_calls == pytest.approx(looks, abs=1)
        assert new_view.num_routed == 1000
    await pool.client.aclose()


async def test_listeners_are_told_what_changes() -> None:
    told: list[tuple[str, bool]] = []
    pool = EnginePool((EngineTarget(engine_id="a", url="http://a"),), httpx2.AsyncClient(), 1.0)
    pool.on_change(lambda state: told.append((state.target.engine_id, state.takes_calls)))
    pool.report_unreachable("a", OSError())
    pool.report_unreachable("a", OSError())
    pool.drain(pool.states["a"])
    pool._set(pool.states["a"], healthy=True, why="")
    pool.drain(pool.states["a"], draining=False)
    pool.remove(pool.add(EngineTarget(engine_id="b", url="http://b")))
    pool.report_unreachable("b", OSError())
    assert told == [("a", False), ("a", True), ("b", False), ("b", False)], "b was never known well enough to take any"
    await pool.client.aclose()


async def test_from_the_command_line() -> None:
    runner = CliRunner()
    async with gateway(FakeEngine()) as system, served(FakeEngine().app) as url:

        async def run(*arguments: str) -> Any:
            command = ["engines", *arguments, "--gateway", f"{system.url}/v1"]
            result = await asyncio.to_thread(runner.invoke, cli, command)
            assert result.exit_code == 0, result.exception
            return result.stdout

        assert json.loads(await run("add", "more", url, "--json"))["id"] == "more"
        assert [e["id"] for e in json.loads(await run("list", "--json"))["data"]] == ["e0", "more"]
        assert "draining" in await run("drain", "more")
        assert "up" in await run("undrain", "more")
        assert "removed" in await run("remove", "more")
        assert [e["id"] for e in json.loads(await run("list", "--json"))["data"]] == ["e0"]


async def test_the_body_of_a_call_to_a_removed_engine_is_not_lost() -> None:
    async with gateway(FakeEngine(), FakeEngine(), balancer="round_robin") as system:
        await system.client.delete("/v1/engines/e0")
        for n in range(4):
            assert (await system.post("/v1/chat/completions", CHAT, {"X-Agentix-Program": f"p{n}"})).status_code == 200
