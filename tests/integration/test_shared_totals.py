"""What gateways learn of programs that are over outlives them, at a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from agentix.cluster.table_memory import TotalsMemory
from agentix.cluster.table_server import TableServer
from agentix.cluster.table_shared import SharedTable, SharedTableSettings
from agentix.core import ProcessTable
from agentix.core.events import TotalsLearnt
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway
from table_server import Server, table_server

SHARING = SharedTableSettings(period_s=0.05, silent_s=1.0, totals_period_s=0.05)
AGENT: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You are a support agent."}, {"role": "user", "content": "hi"}]
}


@pytest.fixture
def server() -> Iterator[Server]:
    with table_server() as server:
        yield server


async def run_programs(system: System, num: int) -> str:
    """Programs of one call, 2 s of service, that nobody names; gives their class."""
    program_class = ""
    for _ in range(num):
        answer = await system.chat(**AGENT)
        program_id = answer.headers["x-agentix-program"]
        program_class = system.table.row(program_id).program_class
        assert (await system.client.delete(f"/v1/programs/{program_id}")).status_code == 200
    return program_class


def num_known(table: ProcessTable, program_class: str) -> int:
    history = table.histories.by_class.get(program_class)
    return len(history.totals_s) if history else 0


async def test_a_gateway_begins_with_what_those_before_it_have_learnt(server: Server) -> None:
    async with gateway(FakeEngine(), table=SharedTable(server.url, SHARING)) as system:
        program_class = await run_programs(system, 8)
    async with gateway(FakeEngine(), table=SharedTable(server.url, SHARING)) as system:
        assert not system.table.rows
        histories = system.table.histories
        assert list(histories.by_class[program_class].totals_s) == [2.0] * 8
        assert histories.of(program_class).expected_s(0.0) == histories.of("new").expected_s(0.0) == 2.0


async def test_gateways_learn_from_each_other_and_nothing_counts_twice(server: Server) -> None:
    async with (
        gateway(FakeEngine(), table=SharedTable(server.url, SHARING)) as a,
        gateway(FakeEngine(), table=SharedTable(server.url, SHARING)) as b,
    ):
        program_class = await run_programs(a, 3)
        await eventually(lambda: num_known(b.table, program_class) == 3)
        await run_programs(b, 2)
        await eventually(lambda: num_known(a.table, program_class) == 5)
        assert num_known(b.table, program_class) == 5


def at(server: Server) -> TableServer:
    return TableServer(server.url, keep_s=60.0, silent_s=3.0)


def learn(table: ProcessTable, *totals_s: float) -> None:
    contexts = (1,) * len(totals_s)
    table.apply(TotalsLearnt(now=time.monotonic(), program_class="coder", totals_s=totals_s, contexts=contexts))


async def test_who_knows_less_takes_over_before_it_writes(server: Server) -> None:
    long, short, other = ProcessTable(), ProcessTable(), ProcessTable()
    learn(long, 1.0, 2.0, 3.0)
    learn(short, 9.0)
    client = at(server)
    for table in (long, short, other):
        await TotalsMemory(table, client).exchange()
        assert list(table.histories.by_class["coder"].totals_s) == [1.0, 2.0, 3.0]
    await client.close()


async def test_what_cannot_be_read_keeps_nobody_from_the_rest(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    table, client = ProcessTable(), at(server)
    good = '{"totals_of":"coder","totals_s":[4.0],"contexts":[7]}'
    for bad in ("nonsense", "[1]", "null", good.replace("4.0", "-4.0"), good.replace("7", '"7"')):
        caplog.clear()
        table = ProcessTable()
        await client.keep_totals(f"{bad}\n{good}")
        await TotalsMemory(table, client).exchange()
        assert list(table.histories.by_class["coder"].totals_s) == [4.0]
        assert "1 classes of programs at the shared table cannot be read" in caplog.text
        assert await client.totals() == good  # mended
    await client.close()
