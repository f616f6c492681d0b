"""Programs as objects over real sockets: listing them page by page, cancelling their calls wherever they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.responses import StreamingResponse

from agentix.core.events import ProgramStarted
from fake_engine import USAGE, FakeEngine
from gateway_system import CHAT, System, eventually, gateway


def ids(page: httpx2.Response) -> list[str]:
    return [row["id"] for row in page.json()["data"]]


async def cancel(system: System, program_id: str, **query: str) -> Any:
    response = await system.client.post(f"/v1/programs/{program_id}/cancel", params=query)
    assert response.status_code == 200
    return response.json()


async def test_programs_are_listed_page_by_page_in_order_of_arrival() -> None:
    async with gateway(FakeEngine()) as system:
        for now, program_id in ((1.0, "z"), (3.0, "c"), (3.0, "b"), (3.0, "a"), (5.0, "d")):
            system.table.apply(ProgramStarted(now=now, program_id=program_id))
        client = system.client
        whole = await client.get("/v1/programs")
        assert (ids(whole), whole.json()["has_more"], whole.json()["next"]) == (["z", "a", "b", "c", "d"], False, None)
        first = await client.get("/v1/programs", params={"limit": 2})
        assert (ids(first), first.json()["has_more"]) == (["z", "a"], True)
        await client.delete("/v1/programs/a")  # the next page begins behind it all the same
        second = await client.get("/v1/programs", params={"limit": 2, "after": first.json()["next"]})
        assert ids(second) == ["b", "c"]
        third = await client.get("/v1/programs", params={"limit": 2, "after": second.json()["next"]})
        assert (ids(third), third.json()["has_more"], third.json()["next"]) == (["d"], False, None)


async def test_a_list_without_a_limit_is_bounded() -> None:
    async with gateway(FakeEngine()) as system:
        for number in range(1001):
            system.table.apply(ProgramStarted(now=float(number), program_id=f"p{number}"))
        assert len(ids(await system.client.get("/v1/programs"))) == 100
        largest = await system.client.get("/v1/programs", params={"limit": 1000})
        assert (len(ids(largest)), ids(largest)[-1], largest.json()["has_more"]) == (1000, "p999", True)


async def test_programs_are_listed_by_class() -> None:
    async with gateway(FakeEngine()) as system:
        for program_id, program_class in (("p", "coder"), ("q", "chat"), ("r", "coder"), ("s", "")):
            await system.post("/v1/programs", {"program_id": program_id, "class": program_class})
        assert ids(await system.client.get("/v1/programs", params={"class": "coder"})) == ["p", "r"]
        assert ids(await system.client.get("/v1/programs", params={"class": ""})) == ["s"]
        assert ids(await system.client.get("/v1/programs", params={"class": "x"})) == []


@pytest.mark.parametrize(("name", "values"), [("limit", ("0", "1001", "-1", "x", "", "²")), ("after", ("", "p", "nan:p"))])
async def test_a_bad_query_is_refused(name: str, values: tuple[str, ...]) -> None:
    async with gateway(FakeEngine()) as system:
        for value in values:
            response = await system.client.get("/v1/programs", params={name: value})
            assert (response.status_code, response.json()["error"]["param"]) == (400, name)


async def test_a_row_tells_of_context_and_active_calls() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        call = asyncio.create_task(system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "c", "X-Agentix-Thread": "t"}))
        await eventually(lambda: engine.num_active == 1)
        row = await system.program("p")
        active = row["threads"]["t"][0]
        assert (active["call_id"], active["engine_id"], active["answering"]) == ("c", "e0", False)
        assert row["context_tokens"] == active["prompt_tokens"] == 1
        await cancel(system, "p")
        await call
        engine.mode = "ok"
        await system.chat({"X-Agentix-Program": "p"})
        assert (await system.program("p"))["context_tokens"] == 1 + USAGE["completion_tokens"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"])
async def test_a_cancelled_call_stops_in_the_engine_and_its_client_is_told(path: str) -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        call = asyncio.create_task(system.post(path, CHAT, {"X-Agentix-Program": "p/1", "X-Agentix-Call": "c"}))
        await eventually(lambda: engine.num_active == 1)
        assert await cancel(system, "p/1") == {"object": "program.cancelled", "id": "p/1", "cancelled": ["c"]}
        response = await call
        error = response.json()["error"]
        assert response.status_code == 499
        assert error["message"] == "the call was cancelled with its program 'p/1'"
        if path == "/v1/messages":
            assert error["type"] == "api_error"
        else:
            assert (error["type"], error["code"]) == ("cancelled_error", "program_cancelled")
        await eventually(lambda: engine.num_cancelled == 1)
        await eventually(lambda: not system.table.calls)
        row = await system.program("p/1")
        assert (row["num_finished"], row["num_aborted"]) == (0, 1)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", ("cancelled_error", "program_cancelled")),
        ("/v1/responses", ("error", "program_cancelled")),
        ("/v1/messages", ("api_error", None)),
    ],
)
async def test_a_cancelled_stream_ends_with_an_error_event(path: str, expected: tuple[str, str | None]) -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        call = asyncio.create_task(system.post(path, {**CHAT, "stream": True}, {"X-Agentix-Program": "p"}))
        await eventually(lambda: any(c.running for c in system.table.calls.values()))
        await cancel(system, "p")
        response = await call
        last = json.loads(response.content.strip().split(b"data: ")[-1])
        error = last.get("error", last)
        assert response.status_code == 200
        assert (error["type"], error.get("code")) == expected
        await eventually(lambda: engine.num_cancelled == 1)


async def test_all_of_a_program_is_cancelled_on_every_engine_and_nothing_else() -> None:
    engines = [FakeEngine(mode="hang"), FakeEngine(mode="hang")]
    async with gateway(*engines, balancer="round_robin") as system:
        mine = [asyncio.create_task(system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": str(i)})) for i in range(4)]
        await eventually(lambda: [e.num_active for e in engines] == [2, 2])
        other = asyncio.create_task(system.chat({"X-Agentix-Program": "q"}))
        await eventually(lambda: sum(e.num_active for e in engines) == 5)
        assert sorted((await cancel(system, "p"))["cancelled"]) == ["0", "1", "2", "3"]
        assert [r.status_code for r in await asyncio.gather(*mine)] == [499] * 4
        await eventually(lambda: sum(e.num_cancelled for e in engines) == 4)
        assert not other.done()
        assert (await cancel(system, "p"))["cancelled"] == []
        for engine in engines:
            engine.mode = "ok"
        assert (await system.chat({"X-Agentix-Program": "p"})).status_code == 200  # it lives on
        await cancel(system, "q")
        await other


async def test_a_subtree_of_threads_is_cancelled() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        calls = {}
        for thread, parent in (("", ""), ("a", ""), ("b", "a"), ("c", "b"), ("d", "")):
            headers = {"X-Agentix-Program": "p", "X-Agentix-Call": f"call-{thread}"}
            named = {"x-claude-code-agent-id": thread} if thread else {}
            launched = {"x-claude-code-parent-agent-id": parent} if parent else {}
            calls[thread] = asyncio.create_task(system.chat({**headers, **named, **launched}))
            await eventually(lambda: engine.num_active == len(calls))
        assert (await cancel(system, "p", thread="a"))["cancelled"] == ["call-a", "call-b", "call-c"]
        assert [(await calls[t]).status_code for t in "abc"] == [499] * 3
        assert (await cancel(system, "p", thread="unknown"))["cancelled"] == []
        assert not calls[""].done()
        assert (await cancel(system, "p", thread=""))["cancelled"] == ["call-", "call-d"]
        await asyncio.gather(calls[""], calls["d"])


async def test_a_program_that_nobody_knows_cannot_be_cancelled() -> None:
    async with gateway(FakeEngine()) as system:
        response = await system.client.post("/v1/programs/p/cancel")
        assert (response.status_code, response.json()["error"]["type"]) == (404, "invalid_request_error")
        assert "no program 'p'" in response.json()["error"]["message"]


async def test_an_answer_that_is_complete_is_not_cancelled() -> None:
    closes = asyncio.Event()

    async def events() -> AsyncIterator[bytes]:
        yield b"data: [DONE]\n\n"
        await closes.wait()

    async with gateway(FakeEngine(answer=StreamingResponse(events(), media_type="text/event-stream"))) as system:
        call: dict[str, Any] = {"json": {**CHAT, "stream": True}, "headers": {"X-Agentix-Program": "p"}}
        async with system.client.stream("POST", "/v1/chat/completions", **call) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "data: [DONE]"
            assert (await system.program("p"))["num_finished"] == 1  # at once: the engine has not even closed its side
            assert (await cancel(system, "p"))["cancelled"] == []
            closes.set()
            assert [line async for line in lines if line] == []
        assert (await system.program("p"))["num_finished"] == 1
