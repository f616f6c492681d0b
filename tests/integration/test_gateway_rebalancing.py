"""An engine that is added while another one has a queue, over real sockets: short calls go there, a long context stays."""

from __future__ import annotations

import asyncio

import httpx2

from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import FakeEngine, served
from gateway_system import System, eventually, gateway

LONG = "word " * 2400  # 3,000 tokens by the rule of four characters each


def call(system: System, program_id: str, prompt: str = "hi") -> asyncio.Task[httpx2.Response]:
    headers = {"X-Agentix-Program": program_id}
    return asyncio.create_task(system.chat(headers, messages=[{"role": "user", "content": prompt}]))


async def test_calls_that_are_held_for_a_slow_engine_go_to_one_that_joins() -> None:
    slow, second = FakeEngine(), FakeEngine()
    async with gateway(slow, admission=AdmissionSettings(max_concurrency=1)) as system, served(second.app) as url:
        await system.models_known()
        assert (await call(system, "long", LONG)).status_code == 200
        slow.mode = "hang"
        first = call(system, "first")
        await eventually(lambda: slow.num_active == 1)
        short = [call(system, f"p{n}") for n in range(20)]
        long = call(system, "long", LONG)
        await eventually(lambda: len(system.table.calls) == 22)
        assert (await system.client.get("/health")).json()["engines"][0]["num_held"] == 21
        answer = await system.client.post("/v1/engines", json={"id": "e1", "url": url})
        assert answer.status_code == 201, answer.text
        answers = await asyncio.gather(*short)
        assert {(a.status_code, a.headers["x-agentix-engine"]) for a in answers} == {(200, "e1")}
        assert len(second.requests) == 20, "each of them once"
        row = await system.program("long")
        assert row["home_engine_id"] == "e0"
        (waiting,) = row["threads"][""]
        assert (waiting["state"], waiting["engine_id"]) == ("held", "e0")
        for program_id in ("first", "long"):
            await system.client.post(f"/v1/programs/{program_id}/cancel", json={})
        assert [(await task).status_code for task in (first, long)] == [499, 499]
        assert not system.table.calls
        system.app.state.admission.validate()


async def test_the_first_call_of_a_program_says_that_it_went_where_a_turn_was_free() -> None:
    slow, second = FakeEngine(mode="hang"), FakeEngine(mode="hang")
    async with gateway(slow, second, admission=AdmissionSettings(max_concurrency=1)) as system:
        await system.models_known()
        await system.client.post("/v1/engines/e1/drain", json={})
        tasks = [call(system, "p")]
        await eventually(lambda: slow.num_active == 1)
        tasks.append(call(system, "q"))
        await eventually(lambda: len(system.table.calls) == 2)
        await system.client.post("/v1/engines/e1/undrain", json={})
        await eventually(lambda: second.num_active == 1)
        (shown,) = (await system.program("q"))["threads"][""]
        assert shown["routed_because"] == "was held for e0, went to a free turn: short prompt: least used"
        for program_id in ("p", "q"):
            await system.client.post(f"/v1/programs/{program_id}/cancel", json={})
        assert [answer.status_code for answer in await asyncio.gather(*tasks)] == [499, 499]
