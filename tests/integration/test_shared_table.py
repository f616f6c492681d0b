"""Several gateways that share one process table, at a real server that is killed, stopped and started again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentix.cluster.table import keep_table
from agentix.cluster.table_shared import SharedTable, SharedTableSettings
from agentix.core import ConfigError
from fake_engine import FakeEngine, served
from gateway_process import gateway_process
from gateway_system import CHAT, System, eventually, gateway
from table_server import Server, table_server

SHARING = SharedTableSettings(period_s=0.05, silent_s=1.0)
P = {"X-Agentix-Program": "p"}
LONG = {"messages": [{"role": "user", "content": "long " * 4000}]}


@pytest.fixture
def server() -> Iterator[Server]:
    with table_server() as server:
        yield server


@asynccontextmanager
async def gateways(
    server: Server, *engines: FakeEngine, num: int = 2, turned: bool = False, **config: Any
) -> AsyncIterator[list[System]]:
    """Gateways in front of the same engines. `turned`: each lists them in another order, and so calls them by other ids."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(e.app)) for e in engines]
        systems = []
        for n in range(num):
            extra = (*urls[n:], *urls[:n]) if turned else tuple(urls)
            system = gateway(extra=extra, table=SharedTable(server.url, SHARING), **config)
            systems.append(await stack.enter_async_context(system))
        yield systems


def totals(system: System, program_id: str = "p") -> tuple[float, int, int]:
    """Service and calls, finished and aborted."""
    row = system.table.rows.get(program_id)
    return (row.service_s, row.num_finished, row.num_aborted) if row is not None else (0.0, 0, 0)


async def agreed(systems: list[System], num_over: int, program_id: str = "p") -> None:
    """Wait until all gateways know of so many calls."""
    await eventually(lambda: all(sum(totals(s, program_id)[1:]) == num_over for s in systems))


async def test_every_gateway_knows_all_that_a_program_has_had(server: Server) -> None:
    engine = FakeEngine()  # each call: 2 s of service
    async with gateways(server, engine, plugin=True) as (a, b):
        await a.chat(P)
        await agreed([a, b], 1)
        await b.chat(P)
        assert engine.last_body["vllm_xargs"]["agentix_service_s"] == 2.0
        await a.chat(P)
        await agreed([a, b], 3)
        assert totals(a) == totals(b) == (6.0, 3, 0)
        assert b.table.row("p").waiting_s == pytest.approx(a.table.row("p").waiting_s)
        assert (await b.program("p"))["num_finished"] == 3


async def test_gateways_send_a_program_to_the_engine_that_has_its_context(server: Server) -> None:
    x, y = FakeEngine(), FakeEngine()
    async with gateways(server, x, y, turned=True) as (a, b):
        await a.chat(P, **LONG)
        await agreed([a, b], 1)
        assert (a.table.row("p").home_engine_id, b.table.row("p").home_engine_id) == ("e0", "e1")
        answer = await b.chat(P, **LONG)
        assert answer.headers["x-agentix-engine"] == "e1"
        assert (len(x.requests), len(y.requests)) == (2, 0)


async def test_calls_of_other_gateways_count_as_load_until_they_are_over(server: Server) -> None:
    x, y = FakeEngine(mode="hang"), FakeEngine()
    async with gateways(server, x, y, balancer="least_used") as (a, b):
        call = asyncio.create_task(a.chat({"X-Agentix-Program": "other"}))
        loads = b.app.state.pool.states
        await eventually(lambda: loads["e0"].num_calls_elsewhere == 1)
        assert b.table.row("other").num_calls_elsewhere == 1
        assert (await b.chat(P)).headers["x-agentix-engine"] == "e1"
        call.cancel()
        await eventually(lambda: loads["e0"].num_calls_elsewhere == 0)
        await eventually(lambda: b.table.row("other").num_calls_elsewhere == 0)
        x.mode = "ok"
        assert (await b.chat(P)).headers["x-agentix-engine"] == "e0"


async def test_what_is_said_of_a_program_at_one_gateway_holds_at_all(server: Server) -> None:
    async with gateways(server, FakeEngine()) as (a, b):
        await a.post("/v1/programs", {"program_id": "p", "class": "coder"})
        await eventually(lambda: "p" in b.table.rows)
        assert (await b.client.patch("/v1/programs/p", json={"weight": 0.5})).json()["class"] == "coder"
        await eventually(lambda: a.table.row("p").weight == 0.5)
        assert (await b.client.delete("/v1/programs/p")).status_code == 200
        await eventually(lambda: "p" not in a.table.rows)
        await a.chat(P)
        await agreed([a, b], 1)
        assert totals(b) == (2.0, 1, 0)


async def test_a_final_turn_ends_the_program_everywhere(server: Server) -> None:
    async with gateways(server, FakeEngine()) as (a, b):
        await a.chat(P)
        await agreed([a, b], 1)
        await b.chat({"X-Dynamo-Session-ID": "p", "X-Dynamo-Session-Final": "true"})
        await eventually(lambda: not a.table.rows and not b.table.rows)


async def test_programs_that_nobody_has_named_are_not_shared(server: Server) -> None:
    async with gateways(server, FakeEngine()) as (a, b):
        await a.chat()
        await a.chat(P)
        await agreed([a, b], 1)
        assert len(a.table.rows) == 2
        assert list(b.table.rows) == ["p"]


async def test_a_gateway_that_stops_leaves_nothing_behind_but_what_it_has_served(server: Server) -> None:
    engine = FakeEngine()
    async with gateways(server, engine, num=1) as (a,):
        async with gateway(extra=(a.app.state.pool.states["e0"].target.url,), table=SharedTable(server.url, SHARING)) as b:
            await b.chat(P)  # and stops at once
        await agreed([a], 1)
        with server.client as client:
            assert client.hlen("agentix:1:gateways") == 1


async def test_no_call_waits_for_a_server_that_does_not_answer(server: Server) -> None:
    async with gateways(server, FakeEngine()) as (a, b):
        await a.chat(P)
        await agreed([a, b], 1)
        server.signal(signal.SIGSTOP)
        for _ in range(20):
            assert (await b.chat(P)).status_code == 200
        assert totals(b) == (42.0, 21, 0)
        assert totals(a) == (2.0, 1, 0)
        server.signal(signal.SIGCONT)
        await agreed([a, b], 21)


async def test_a_gateway_starts_without_the_server_and_finds_it_later(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.kill()
    async with gateways(server, FakeEngine()) as (a, b):
        assert sum("the shared table does not answer" in line for line in caplog.messages) == 2  # not again and again
        await a.chat(P)
        server.start()
        await agreed([a, b], 1)


async def test_a_server_that_dies_again_and_again_under_load_costs_no_call_and_none_twice(server: Server) -> None:
    num_calls = [0, 0]
    async with gateways(server, FakeEngine()) as systems:

        async def load(n: int, until: asyncio.Event) -> None:
            while not until.is_set():
                assert (await systems[n].chat(P)).status_code == 200
                num_calls[n] += 1
                await asyncio.sleep(0.005)

        over = asyncio.Event()
        loads = [asyncio.create_task(load(n, over)) for n in (0, 1, 0, 1)]
        for _ in range(5):
            await asyncio.sleep(0.1)
            server.kill()
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.start)  # it has forgotten everything
        over.set()
        await asyncio.gather(*loads)
        await agreed(systems, sum(num_calls))
        expected = (2.0 * sum(num_calls), sum(num_calls), 0)
        assert [totals(s) for s in systems] == [expected] * 2
        async with gateways(server, FakeEngine(), num=1) as late:
            await eventually(lambda: totals(late[0]) == expected)


async def test_killing_a_gateway_under_load_loses_nothing_that_it_had_told_and_counts_nothing_twice(server: Server) -> None:
    engine = FakeEngine()
    async with (
        served(engine.app) as url,
        gateway_process(url, table=server.url) as (doomed, doomed_url),
        gateway(extra=(url,), table=SharedTable(server.url, SHARING)) as survivor,
        httpx2.AsyncClient(base_url=doomed_url, trust_env=False, timeout=30.0) as client,
    ):

        async def call(program_id: str) -> bool:
            headers = {"X-Agentix-Program": program_id}
            try:
                return (await client.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 200
            except httpx2.HTTPError:
                return False

        async def load() -> None:
            while await call("p"):
                pass

        engine.mode = "hang"
        hanging = asyncio.create_task(call("hangs"))
        await eventually(lambda: "hangs" in survivor.table.rows)
        assert survivor.table.row("hangs").num_calls_elsewhere == 1
        engine.mode = "ok"
        loads = [asyncio.create_task(load()) for _ in range(4)]
        await eventually(lambda: totals(survivor)[1] >= 5)
        acknowledged = _at_server(server, "p")
        doomed.kill()
        await asyncio.gather(hanging, *loads)
        told = _at_server(server, "p")
        assert acknowledged <= told < len(engine.requests)  # one of them was the one that hangs
        await eventually(lambda: totals(survivor) == (2.0 * told, told, 0))
        await eventually(lambda: not any(row.num_active for row in survivor.table.rows.values()))
        await survivor.chat(P)
        assert totals(survivor) == (2.0 * (told + 1), told + 1, 0)


def _at_server(server: Server, program_id: str) -> int:
    """Finished calls of the program by all accounts at the server."""
    with server.client as client:
        record: Any = client.hgetall(f"agentix:1:program:{program_id}")
        return sum(json.loads(value)[3] for name, value in record.items() if name.startswith("a:"))


async def test_calls_of_others_are_in_the_totals_and_nowhere_else(server: Server) -> None:
    async with gateways(server, FakeEngine()) as (a, b):
        await a.chat(P)
        await agreed([a, b], 1)
        assert (await b.client.get("/v1/calls")).json()["data"] == []
        assert "agentix_gateway_calls_total{" not in (await b.client.get("/metrics")).text


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("http://host:6379", "redis://, rediss:// or unix://, not at http://"),
        ("redis://:pa/ss@host/0", "special characters of the password percent-encoded"),
        ("/no/such/folder/table", "cannot be kept in /no/such/folder/table: No such file"),
    ],
)
def test_a_place_that_is_none_is_refused_at_once(where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        keep_table(where)


async def test_the_password_of_the_server_is_in_no_message(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.kill()
    table = SharedTable("redis://:hunter2@127.0.0.1:1/0", SHARING)
    async with gateway(FakeEngine(), table=table):
        assert "the shared table does not answer" in caplog.text
    assert "hunter2" not in caplog.text


def test_the_script_comes_with_the_package() -> None:
    import agentix.cluster  # noqa: PLC0415

    assert (Path(agentix.cluster.__file__).parent / "table.lua").is_file()
