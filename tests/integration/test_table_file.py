"""A gateway whose process table is kept in a file: it stops, is killed, and goes on."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import httpx2
import pytest

from agentix.cluster import table_file
from agentix.cluster.table_file import TableFile
from agentix.cluster.table_snapshot import to_line, to_text
from agentix.core import ConfigError, ProcessTable
from agentix.core.events import ServedElsewhere
from fake_engine import FakeEngine, served
from gateway_process import gateway_process
from gateway_system import CHAT, System, eventually, gateway

P = {"X-Agentix-Program": "p"}


def kept_in(path: Path) -> TableFile:
    return TableFile(path, keep_s=3600.0, period_s=0.02)


def totals(system: System, program_id: str = "p") -> tuple[float, int]:
    row = system.table.row(program_id)
    return row.service_s, row.num_finished


async def test_programs_go_on_from_what_they_had(tmp_path: Path) -> None:
    path, engine = tmp_path / "table", FakeEngine()
    async with gateway(engine, table=kept_in(path)) as system:
        await system.post("/v1/programs", {"program_id": "p", "class": "coder"})
        await system.client.patch("/v1/programs/p", json={"weight": 0.5})
        await system.chat(P)
        await system.chat(P)
        await system.chat()  # of a program that nobody has named
        waiting_s = system.table.row("p").waiting_s
    assert path.stat().st_mode & 0o777 == 0o600
    async with gateway(engine, plugin=True, table=kept_in(path)) as system:
        assert list(system.table.rows) == ["p"]
        assert totals(system) == (4.0, 2)
        row = system.table.row("p")
        assert (row.program_class, row.weight, row.waiting_s) == ("coder", 0.5, waiting_s)
        await system.chat(P)
        assert engine.last_body["vllm_xargs"]["agentix_service_s"] == 4.0
        assert totals(system) == (6.0, 3)


async def test_a_gateway_that_is_killed_has_written_what_it_knew(tmp_path: Path) -> None:
    path, before = tmp_path / "table", tmp_path / "before"
    async with gateway(FakeEngine(), table=kept_in(path)) as system:
        await system.chat(P)
        await eventually(lambda: path.exists() and '"num_finished":1' in path.read_text())
        before.write_bytes(path.read_bytes())  # as it is in the middle of everything
    async with gateway(FakeEngine(), table=kept_in(before)) as system:
        assert totals(system) == (2.0, 1)


async def test_home_is_kept_by_the_engines_address(tmp_path: Path) -> None:
    path, long = tmp_path / "table", "long " * 4000
    x, y = FakeEngine(), FakeEngine()
    async with gateway(x, y) as engines:
        urls = tuple(s.target.url for s in engines.app.state.pool.states.values())
        async with gateway(extra=urls, table=kept_in(path)) as system:
            await system.chat(P, messages=[{"role": "user", "content": long}])
            assert system.table.row("p").home_engine_id == "e0"
        async with gateway(extra=urls[::-1], table=kept_in(path)) as system:
            assert system.table.row("p").home_engine_id == "e1"


async def test_rows_are_in_the_order_of_their_arrival_and_end_by_when_they_were_used(tmp_path: Path) -> None:
    path, table, now = tmp_path / "table", ProcessTable(), time.monotonic()
    for program_id, age_s, idle_s in (("old", 900.0, 100.0), ("young", 300.0, 250.0), ("gone", 9000.0, 4000.0)):
        table.apply(ServedElsewhere(now=now, program_id=program_id, started_s=now - age_s, last_completion_s=now - idle_s))
    lines = [to_line(row, home="", now=now, wall_s=time.time()) for row in reversed(tuple(table.rows.values()))]
    path.write_text(to_text(lines))
    async with gateway(FakeEngine(), table=kept_in(path)) as system:
        shown = (await system.client.get("/v1/programs")).json()["data"]
        assert [program["id"] for program in shown] == ["old", "young"]
        assert [round(program["age_s"], -1) for program in shown] == [900.0, 300.0]


@pytest.mark.parametrize(
    "text", ["", "no snapshot\n", '{"format": "agentix process table", "version": 99}\n{"num_programs": 0}\n']
)
async def test_a_file_that_cannot_be_read_is_put_aside(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table"
    path.write_text(text)
    async with gateway(FakeEngine(), table=kept_in(path)) as system:
        assert not system.table.rows
        assert "cannot read the process table" in caplog.text
        assert (tmp_path / "table.broken").read_text() == text
        await system.chat(P)
    async with gateway(FakeEngine(), table=kept_in(path)) as system:
        assert totals(system) == (2.0, 1)


async def test_nothing_new_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    written: list[str] = []
    monkeypatch.setattr(table_file, "_write", lambda _, text: written.append(text))
    async with gateway(FakeEngine(), table=kept_in(path)) as system:
        await system.chat(P)
        await eventually(lambda: any('"num_finished":1' in text for text in written))
        num_written = len(written)
        await asyncio.sleep(0.2)  # ten times as long as it takes to write it again
        assert len(written) == num_written


async def test_a_disk_that_is_full_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table"
    table = kept_in(path)
    (tmp_path / "table.new").mkdir()  # nothing can be written there
    async with gateway(FakeEngine(), table=table) as system:
        await eventually(lambda: "cannot be written" in caplog.text)
        assert (await system.chat(P)).status_code == 200
        (tmp_path / "table.new").rmdir()
        await eventually(path.exists)
    assert caplog.text.count("cannot be written") == 1
    assert json.loads(path.read_text().splitlines()[1])["num_finished"] == 1


async def test_two_gateways_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "table"
    async with gateway(FakeEngine(), table=kept_in(path)):
        with pytest.raises(ConfigError, match=r"another gateway keeps its process table in .*table; several"):
            kept_in(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the process table in"):
        kept_in(tmp_path)


async def test_it_is_an_option_of_serve(tmp_path: Path) -> None:
    engine, option = FakeEngine(), ("--table", str(tmp_path / "table"))
    async with served(engine.app) as url, httpx2.AsyncClient(trust_env=False) as client:
        for num_finished in (1, 2):
            async with gateway_process(url, *option) as (process, gateway_url):
                await client.post(f"{gateway_url}/v1/chat/completions", json=CHAT, headers=P)
                program = (await client.get(f"{gateway_url}/v1/programs/p")).json()
                assert program["num_finished"] == num_finished
                process.terminate()
                assert await process.wait() == 0
