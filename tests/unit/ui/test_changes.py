"""A reader of /v1/changes has what the table has, however much it misses in between."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from agentix.core import ProcessTable
from agentix.core.events import CallArrived, CallFinished, CallStarted, ProgramEnded, ProgramStarted
from agentix.core.program import ProgramRow
from agentix.gateway.changes import Changes
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import scoped
from agentix.gateway.tenants import Tenant, bind_tenant, key_digest

IDS = ("a", "b", "c", "d")


def describe(row: ProgramRow, now: float) -> dict[str, Any]:
    threads: dict[str, Any] = {}
    for call in row.calls.values():
        told = {"call_id": call.call_id, "engine_id": call.engine_id, "answering": call.running, "age_s": now - call.arrived_s}
        threads.setdefault(call.thread_id, []).append(told)
    return {"id": row.program_id, "num_finished": row.num_finished, "threads": threads}


def make(table: ProcessTable, **options: Any) -> Changes:
    return Changes(table, describe, **{"min_period_s": 0.0, **options})


async def ask(changes: Changes, since: str = "", tenant: Tenant | None = None) -> Any:
    scope: dict[str, Any] = {"type": "http", "query_string": f"since={since}".encode(), "headers": []}
    changes._next_look_s = 0.0
    answer = await changes.show(Request(bind_tenant(scope, tenant) if tenant else scope))
    return json.loads(bytes(answer.body))


class Reader:
    """What somebody has who takes every answer as it is documented."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.since = ""
        self.rows: dict[str, Any] = {}

    async def poll(self) -> None:
        more, num_answers = True, 0
        while more:
            num_answers += 1
            assert num_answers < 1000, "it begins anew for ever"
            answer = await ask(self.changes, self.since)
            if answer["complete"]:
                self.rows.clear()
            for gone in answer["gone"]:
                self.rows.pop(gone["id"], None)
            self.rows.update({row["id"]: row["num_finished"] for row in answer["data"]})
            self.since, more = answer["next"], answer["has_more"]


@given(
    st.lists(st.tuples(st.sampled_from(["start", "call", "end", "poll", "poll late"]), st.sampled_from(IDS)), max_size=40),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_a_reader_that_has_asked_has_what_the_table_has(steps: list[tuple[str, str]], max_rows: int, max_gone: int) -> None:
    async def run() -> None:
        table = ProcessTable()
        changes = make(table, max_rows=max_rows, max_gone=max_gone)
        often, seldom = Reader(changes), Reader(changes)
        for n, (step, name) in enumerate(steps):
            now = float(n)
            if step == "start":
                table.apply(ProgramStarted(now=now, program_id=name))
            elif step == "call":
                table.apply(CallArrived(now=now, call_id=f"{n}", program_id=name, engine_id="e"))
                table.apply(CallFinished(now=now, call_id=f"{n}", service_s=0.0, waiting_s=0.0))
            elif step == "end" and name in table.rows:
                table.apply(ProgramEnded(now=now, program_id=name))
            elif step.startswith("poll"):
                await (seldom if step == "poll late" else often).poll()
        for reader in (often, seldom, Reader(changes)):
            await reader.poll()
            assert reader.rows == {name: row.num_finished for name, row in table.rows.items()}

    asyncio.run(run())


async def test_a_new_reader_comes_to_an_end_however_much_is_gone_and_forgotten() -> None:
    table = ProcessTable()
    changes = make(table, max_rows=2, max_gone=1)
    for n, name in enumerate(IDS):
        table.apply(ProgramStarted(now=n, program_id=name))
    await ask(changes)
    for n, name in enumerate(IDS[:2]):
        table.apply(ProgramEnded(now=10.0 + n, program_id=name))
    await ask(changes)
    for n in range(5):
        table.apply(ProgramStarted(now=20.0 + n, program_id=f"new-{n}"))
    reader = Reader(changes)
    await reader.poll()
    assert reader.rows.keys() == table.rows.keys()


async def test_only_what_has_changed_is_told_again() -> None:
    table = ProcessTable()
    changes = make(table)
    for name in IDS:
        table.apply(ProgramStarted(now=1.0, program_id=name))
    first = await ask(changes)
    assert ([row["id"] for row in first["data"]], first["complete"]) == (list(IDS), True)
    assert (await ask(changes, first["next"]))["data"] == []
    table.apply(CallArrived(now=2.0, call_id="1", program_id="c", engine_id="e"))
    second = await ask(changes, first["next"])
    assert ([row["id"] for row in second["data"]], second["complete"], second["has_more"]) == (["c"], False, False)
    assert (await ask(changes, second["next"]))["data"] == []  # that the call has grown older is no change
    table.apply(CallStarted(now=3.0, call_id="1"))
    third = await ask(changes, second["next"])
    assert third["data"][0]["threads"][""][0]["answering"] is True
    table.apply(ProgramEnded(now=4.0, program_id="a"))
    fourth = await ask(changes, third["next"])
    assert (fourth["data"], fourth["gone"]) == ([], [{"id": "a", "tenant": ""}])


async def test_answers_are_bounded_and_go_on_where_they_stopped() -> None:
    table = ProcessTable()
    changes = make(table, max_rows=3)
    for name in IDS:
        table.apply(ProgramStarted(now=1.0, program_id=name))
    first = await ask(changes)
    assert ([row["id"] for row in first["data"]], first["has_more"]) == (["a", "b", "c"], True)
    second = await ask(changes, first["next"])
    assert ([row["id"] for row in second["data"]], second["has_more"], second["complete"]) == (["d"], False, False)


async def test_a_cursor_of_an_earlier_gateway_begins_anew_and_nonsense_is_refused() -> None:
    table = ProcessTable()
    table.apply(ProgramStarted(now=1.0, program_id="p"))
    earlier = await ask(make(table))
    later = await ask(make(table), earlier["next"])
    assert (later["complete"], [row["id"] for row in later["data"]]) == (True, ["p"])
    for nonsense in ("x", "1.2.3", ".5", "a.²", "a.-1"):
        with pytest.raises(HTTPError, match="since must be the cursor of an earlier answer"):
            await ask(make(table), nonsense)


async def test_a_tenant_is_told_of_its_own_programs_alone() -> None:
    table = ProcessTable()
    tenants = [Tenant(name=name, key_digests=(key_digest(name),), admin=name == "ops") for name in ("x", "y", "ops")]
    for name in ("x", "y"):
        table.apply(ProgramStarted(now=1.0, program_id=scoped(name, "p")))
    changes = make(table, max_rows=1)
    told = [[row["id"] for row in (await ask(changes, tenant=tenant))["data"]] for tenant in tenants[:2]]
    assert told == [[scoped("x", "p")], [scoped("y", "p")]]
    everything = await ask(make(table), tenant=tenants[2])
    assert len(everything["data"]) == 2
    before = await ask(changes, tenant=tenants[0])
    table.apply(ProgramEnded(now=2.0, program_id=scoped("y", "p")))
    assert (await ask(changes, before["next"], tenants[0]))["gone"] == []
    assert (await ask(changes, before["next"], tenants[1]))["gone"] == [{"id": "p", "tenant": "y"}]


async def test_many_readers_cost_one_look() -> None:
    table = ProcessTable()
    table.apply(ProgramStarted(now=1.0, program_id="p"))
    table.apply(CallArrived(now=1.0, call_id="1", program_id="p", engine_id="e"))
    looks: list[str] = []
    changes = Changes(table, describe, min_period_s=60.0, standing=looks.append)
    request = Request({"type": "http", "query_string": b"since=", "headers": []})
    for _ in range(3):
        await changes.show(request)
    assert looks == ["1"]


async def test_a_call_s_new_place_is_a_change() -> None:
    table = ProcessTable()
    table.apply(ProgramStarted(now=1.0, program_id="p"))
    table.apply(CallArrived(now=1.0, call_id="1", program_id="p", engine_id="e"))
    places = {"1": 2}
    changes = make(table, standing=places.get)
    since = (await ask(changes))["next"]
    assert (await ask(changes, since))["data"] == []
    places["1"] = 1
    assert len((await ask(changes, since))["data"]) == 1


async def test_pausing_an_idle_program_is_a_change() -> None:
    table, paused = ProcessTable(), set[str]()
    table.apply(ProgramStarted(now=1.0, program_id="p"))
    changes = make(table, paused=paused)
    since = (await ask(changes))["next"]
    paused.add("p")
    assert len((await ask(changes, since))["data"]) == 1
