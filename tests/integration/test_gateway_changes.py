"""What dashboards read, over real sockets: calls that are over, and rows that change while they are held."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway


async def ask(system: System, path: str, **query: str) -> Any:
    response = await system.client.get(path, params=query)
    assert response.status_code == 200
    return response.json()


async def test_calls_that_are_over_are_told_with_their_moments() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        await system.post("/v1/programs", {"program_id": "p", "class": "coder"})
        await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "streamed", "X-Agentix-Thread": "t"}, stream=True)
        first = await ask(system, "/v1/calls")
        call = first["data"][0]
        moments = [call[name] for name in ("arrived_s", "sent_s", "first_token_s", "over_s")] + [first["now_s"]]
        assert moments == sorted(moments)
        told = {name: value for name, value in call.items() if not name.endswith("_s")}
        assert told == {
            "object": "call",
            "tenant": "",
            "program_id": "p",
            "program_class": "coder",
            "thread_id": "t",
            "call_id": "streamed",
            "engine_id": "e0",
            "outcome": "finished",
            "prompt_tokens": 7,
            "cached_tokens": None,
            "output_tokens": 3,
        }
        engine.mode = "refuse"
        await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "whole"})
        second = await ask(system, "/v1/calls", after=first["next"])
        assert [(c["call_id"], c["outcome"], c["first_token_s"]) for c in second["data"]] == [("whole", "refused", None)]
        assert (await ask(system, "/v1/calls", after=second["next"]))["data"] == []
        refused = await system.client.get("/v1/calls", params={"after": "nonsense"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "after")


async def test_a_call_that_never_went_to_an_engine_has_no_moment_of_that() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, admission=AdmissionSettings(max_concurrency=1)) as system:
        running = asyncio.create_task(system.chat({"X-Agentix-Program": "p"}))
        await eventually(lambda: engine.num_active == 1)
        held = asyncio.create_task(system.chat({"X-Agentix-Program": "q"}))
        await eventually(lambda: len(system.table.calls) == 2)
        rows = {row["id"]: row for row in (await ask(system, "/v1/changes"))["data"]}
        states = {name: [call["state"] for call in row["threads"][""]] for name, row in rows.items()}
        assert states == {"p": ["sent"], "q": ["held"]}
        await system.client.post("/v1/programs/q/cancel")
        assert (await held).status_code == 499
        call = (await ask(system, "/v1/calls"))["data"][0]
        assert (call["program_id"], call["outcome"], call["sent_s"]) == ("q", "cancelled", None)
        await system.client.post("/v1/programs/p/cancel")
        await running


async def test_pausing_and_weighing_an_idle_program_are_changes() -> None:
    async with gateway(FakeEngine()) as system:
        await system.post("/v1/programs", {"program_id": "p"})
        since = (await ask(system, "/v1/changes"))["next"]
        for path, body in (("/pause", None), ("", {"weight": 0.5}), ("/resume", None)):
            method = "POST" if path else "PATCH"
            await system.client.request(method, f"/v1/programs/p{path}", json=body or {})
            row: dict[str, Any] = {}
            while not row:  # the gateway looks twice a second
                answer = await ask(system, "/v1/changes", since=since)
                since, row = answer["next"], next(iter(answer["data"]), {})
            expected = {"/pause": (True, 1.0), "": (True, 0.5), "/resume": (False, 0.5)}[path]
            assert (row["paused"], row["weight"]) == expected


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
async def test_a_page_of_another_site_cannot_steer(action: str) -> None:
    async with gateway(FakeEngine()) as system:
        await system.post("/v1/programs", {"program_id": "p"})
        for kind in ("text/plain", "application/json"):
            headers = {"origin": "http://elsewhere", "content-type": kind}
            response = await system.client.post(f"/v1/programs/p/{action}", content=b"{}", headers=headers)
            assert response.status_code == 403
        assert (await system.client.post(f"/v1/programs/p/{action}")).status_code == 200  # no page at all
