"""A program with the client SDK through a real gateway: its row has the class, the threads and the parents; then it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

import agentix
from agentix.core import events
from agentix.gateway.tenants import Tenant, Tenants, key_digest
from client_sessions import settle
from fake_engine import FakeEngine
from gateway_system import eventually, gateway
from recorded_engine import RecordedEngine

MESSAGES: Any = [{"role": "user", "content": "Say hello"}]


async def test_the_gateway_sees_the_program_as_it_is() -> None:
    agentix.instrument()
    arrived: list[events.CallArrived] = []
    async with gateway(RecordedEngine()) as system:
        await system.models_known()
        apply = system.table.apply

        def keep(event: Any) -> Any:
            if isinstance(event, events.CallArrived):
                arrived.append(event)
            return apply(event)

        system.table.apply = keep  # type: ignore[method-assign]
        async with openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key="k", max_retries=0) as client:

            async def call() -> None:
                await client.chat.completions.create(model="tiny", messages=MESSAGES)

            try:
                async with agentix.program("map-reduce") as program:
                    await call()
                    await asyncio.gather(call(), call())
                    await call()
                    row = await system.program(program.id)
                    assert (row["class"], row["num_finished"]) == ("map-reduce", 4)
                await asyncio.to_thread(settle)
                await eventually(lambda: program.id not in system.table.rows)
            finally:
                agentix.uninstrument()
    ids = {e.call_id.removeprefix(f"{program.id}/"): e for e in arrived}
    parents = [{p.removeprefix(f"{program.id}/") for p in e.parents or ()} for e in ids.values()]
    assert arrived[0].parents == ()
    assert parents[1] == parents[2] == {next(iter(ids))}
    assert parents[3] == set(list(ids)[1:3])
    assert len({e.program_id for e in arrived}) == 1


async def test_with_tenants_the_session_is_opened_and_ended_with_the_key_of_its_calls() -> None:
    agentix.instrument()
    key = "agx-acme-" + "0123456789" * 4
    acme = Tenants((Tenant(name="acme", key_digests=(key_digest(key),)),), "a secret of thirty-two characters")
    async with (
        gateway(FakeEngine(), tenants=acme) as system,
        openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key=key, max_retries=0) as client,
    ):
        try:
            with agentix.program("research"):
                await client.chat.completions.create(model="fake", messages=MESSAGES)
                (row,) = system.table.rows.values()
                assert (row.program_class, row.num_finished) == ("research", 1)
            await asyncio.to_thread(settle)
            await eventually(lambda: not system.table.rows)
        finally:
            agentix.uninstrument()


async def test_a_server_that_is_not_there_costs_no_more_than_its_own_error() -> None:
    agentix.instrument()
    try:
        with agentix.program("p"):
            async with httpx2.AsyncClient() as client:
                for _ in range(2):
                    try:
                        await client.post("http://127.0.0.1:1/v1/chat/completions", json={})
                    except httpx2.ConnectError:
                        continue
                    raise AssertionError("port 1 answered")
        await asyncio.to_thread(settle)
    finally:
        agentix.uninstrument()


async def test_the_example_in_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    agentix.instrument()
    try:
        async with gateway(RecordedEngine()) as system:
            await system.models_known()
            code = example.replace("http://127.0.0.1:8080", system.url).replace("smollm2-135m", "tiny")
            await asyncio.to_thread(exec, code, {})
    finally:
        agentix.uninstrument()
    assert capsys.readouterr().out.strip() == "Hert recitingenariotot"
