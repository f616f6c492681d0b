"""The decision log of a whole gateway: what it holds of real calls, and that the core decides the same from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from agentix.cluster.table import TableKeeper
from agentix.cluster.table_file import TableFile
from agentix.cluster.table_shared import SharedTable, SharedTableSettings
from agentix.core.config import SchedulerConfig
from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import FakeEngine, served
from gateway_process import gateway_process
from gateway_replay import replay
from gateway_system import System, eventually, gateway
from table_server import table_server


async def call(system: System, program_id: str, prompt: str = "a secret word") -> int:
    answer = await system.chat({"X-Agentix-Program": program_id}, messages=[{"role": "user", "content": prompt}])
    return answer.status_code


async def test_the_core_decides_what_a_gateway_decided(tmp_path: Path) -> None:
    path, first, second = tmp_path / "gateway.jsonl", FakeEngine(), FakeEngine()
    async with gateway(first, second, admission=AdmissionSettings(max_concurrency=1), decision_log=path) as system:
        await system.models_known()
        await system.client.post("/v1/programs", json={"program_id": "a", "class": "coder"})
        assert [await call(system, program_id) for program_id in "aab"] == [200] * 3
        first.mode = second.mode = "hang"
        await system.client.post("/v1/engines/e1/drain", json={})
        waiting = [asyncio.create_task(call(system, program_id)) for program_id in "cdef"]
        await eventually(lambda: len(system.table.calls) == 4 and first.num_active == 1)
        await system.client.patch("/v1/programs/e", json={"weight": 2})
        await system.client.post("/v1/programs/f/pause", json={})
        await system.client.post("/v1/engines/e1/undrain", json={})
        await eventually(lambda: second.num_active == 1)
        for program_id in "cdef":
            await system.client.post(f"/v1/programs/{program_id}/cancel", json={})
        assert await asyncio.gather(*waiting) == [499] * 4
        assert (await system.client.delete("/v1/programs/a")).status_code == 200
    counts = replay(path)
    assert {k: counts[k] for k in ("gateway", "ProgramStarted", "ProgramWeighted", "CallArrived", "CallFinished")} == {
        "gateway": 1,
        "ProgramStarted": 1,
        "ProgramWeighted": 1,
        "CallArrived": 7,
        "CallFinished": 3,
    }
    assert (counts["choice"], counts["CallAborted"], counts["ProgramEnded"]) == (8, 4, 1), "one call was moved"
    text = path.read_text()
    assert "secret" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    events = [line["event"] for line in lines if "event" in line]
    moved = [event for event in events if event["type"] == "CallMoved" and event["engine_id"] == "e1"]
    assert [event["pin"] for event in moved] == [False, False], "told the queue that it left, and the one that it came to"
    choice = [line["choice"] for line in lines if "choice" in line][-1]
    assert (choice["engine_ids"][0], choice["reason"]) == ("e1", "short prompt: least used")
    assert [(e["engine_id"], e["num_calls"]) for e in choice["engines"]] == [("e0", 2), ("e1", 0)], "itself left out"


async def test_serve_logs_the_gateways_decisions_for_servers_that_run_already(tmp_path: Path) -> None:
    directory, call = tmp_path / "logs", {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
    async with (
        served(FakeEngine().app) as engine_url,
        gateway_process(engine_url, "--decision-log", str(directory)) as (_, url),
    ):
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60.0) as client:
            assert (await client.post("/v1/chat/completions", json=call)).status_code == 200
        assert [path.name for path in directory.iterdir()] == ["gateway.jsonl"]
        counts = replay(directory / "gateway.jsonl")
        assert {k: counts[k] for k in ("gateway", "choice", "CallArrived", "CallStarted", "CallFinished")} == dict.fromkeys(
            ("gateway", "choice", "CallArrived", "CallStarted", "CallFinished"), 1
        )


@pytest.fixture(params=["in a file", "at a server"])
def keep(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], TableKeeper]]:
    """Makes what keeps a gateway's table, where the gateway before it kept its own."""
    if request.param == "in a file":
        yield lambda: TableFile(tmp_path / "table", keep_s=3600.0)
        return
    with table_server() as server:
        yield lambda: SharedTable(server.url, SharedTableSettings(period_s=0.05, silent_s=1.0, totals_period_s=0.05))


async def test_what_a_gateway_goes_on_from_is_in_its_log(tmp_path: Path, keep: Callable[[], TableKeeper]) -> None:
    """A program of 2 s in all has 2 s to go: level 2, where nothing is known of its class level 0 (quanta 0.5, 1 and 4 s)."""
    path = tmp_path / "gateway.jsonl"
    scheduler = SchedulerConfig(policy="default", quanta_s=(0.5, 1.0, 4.0))
    for start in range(2):
        admission = AdmissionSettings(scheduler=scheduler, max_concurrency=1)
        async with gateway(FakeEngine(), admission=admission, decision_log=path, table=keep()) as system:
            if start == 1:
                await eventually(lambda: "coder" in system.table.histories.by_class and "under way" in system.table.rows)
            for program_id in ("under way", *(f"{start}.{n}" for n in range(8))):
                await system.client.post("/v1/programs", json={"program_id": program_id, "class": "coder"})
                assert await call(system, program_id) == 200
                if program_id != "under way":
                    assert (await system.client.delete(f"/v1/programs/{program_id}")).status_code == 200
            assert len(system.table.histories.by_class["coder"].totals_s) == 8 * (start + 1)
    assert replay(path)["gateway"] == 2
    lines = path.read_text().splitlines()
    starts = [n for n, line in enumerate(lines) if "gateway" in json.loads(line)]
    later = [json.loads(line) for line in lines[starts[1] :]]
    events = [line["event"] for line in later if "event" in line]
    assert {e.get("program_class") for e in events if e["type"] == "TotalsLearnt"} == {None, "coder"}
    placed = [line["decisions"][0]["level"] for line in later if line.get("event", {}).get("type") == "CallArrived"]
    assert placed[1] == 2
    path.write_text("\n".join(line for line in lines if '"TotalsLearnt"' not in line))
    with pytest.raises(AssertionError):
        replay(path)
