"""What a tenant says to an engine that others use too: no name in it stands there for what is another's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from starlette.responses import JSONResponse

from agentix.gateway.tenants import Budget
from fake_engine import FakeEngine
from gateway_system import CHAT, eventually, gateway
from tenant_keys import bearer, tenants

VICTIM = "blue/p"
LONG = "blue/" + "x" * 256  # as long as another tenant's program may be, with its name: too long to be a program's


def strings(value: Any) -> list[str]:
    """Every text in a body, keys left out."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


# Each says that its call is of this program, in the fields and headers of somebody's dialect.
FIELDS: list[Callable[[str], dict[str, Any]]] = [
    lambda v: {"session_id": v},
    lambda v: {"program_id": v},
    lambda v: {"session_params": {"session_id": v, "id": v}},
    lambda v: {"nvext": {"agent_context": {"session_id": v, "parent_session_id": v}}},
    lambda v: {"nvext": {"agent_context": {"trajectory_id": v, "parent_trajectory_id": v}}},
    lambda v: {"vllm_xargs": {"session_id": v}},
    lambda v: {"vllm_xargs": {"session": {"id": v}}},
    lambda v: {"vllm_xargs": {"job_id": v}},
    lambda v: {"vllm_xargs": {"job": {"id": v}}},
    lambda v: {"vllm_xargs": {"agentic_context": {"program_id": v, "parent_program_id": v}}},
    lambda v: {"vllm_xargs": {"agentic": {"context": {"program": {"id": v}}}}},
]
HEADERS = [
    *("x-agentix-program", "x-session-id", "x-claude-code-session-id", "session-id", "session_id", "x-dynamo-session-id"),
    *("x-session-affinity", "x-litellm-trace-id", "x-session-token", "x-llm-d-inference-fairness-id", "x-parent-session-id"),
    "x-dynamo-parent-session-id",
]


@pytest.mark.parametrize("plugin", [True, False])
async def test_no_field_names_another_tenant_s_program_to_an_engine(plugin: bool) -> None:
    engine = FakeEngine()
    async with gateway(engine, plugin=plugin, tenants=tenants()) as system:
        for say, victim in product(FIELDS, (VICTIM, LONG)):
            response = await system.chat(bearer("acme"), **say(victim))
            assert response.status_code == 200
            assert victim not in strings(engine.last_body), engine.last_body
            sessions = {engine.last_headers.get("x-session-id"), engine.last_body.get("session_id")}
            sessions.add(engine.last_body.get("vllm_xargs", {}).get("session_id"))
            assert sessions <= {None, f"acme/{response.headers['x-agentix-program']}"}


async def test_no_header_does_either() -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants()) as system:
        for header in HEADERS:
            assert (await system.chat(bearer("acme", **{header: VICTIM}))).status_code == 200
            assert VICTIM not in engine.last_headers.values(), header
            assert engine.last_headers[header] == f"acme/{VICTIM}"


async def test_without_tenants_a_name_that_is_none_is_no_program_in_the_engine() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        await system.chat(session_id="x" * 300, vllm_xargs={"session_id": "", "mine": 1})
        assert "session_id" not in engine.last_body
        assert engine.last_body["vllm_xargs"] == {"mine": 1}
        await system.chat(vllm_xargs={"session": {"id": "q"}, "session_id": "p"})
        assert engine.last_body["vllm_xargs"] == {"session_id": "p"}
        assert engine.last_headers["x-session-id"] == "p"
        await system.chat({"X-Agentix-Program": "p"}, program_id="mine", request_id="r")  # as it came
        assert (engine.last_body["program_id"], engine.last_body["request_id"]) == ("mine", "r")


async def test_a_request_is_named_by_its_engine_so_that_nobody_names_another_s_response() -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants()) as system:
        body = {"model": "fake", "input": "hi", "request_id": "resp_blue", "rid": "r", "kv_transfer_params": {"remote": 1}}
        await system.post("/v1/responses", body, bearer("acme"))
        assert engine.last_body.keys() & {"request_id", "rid", "kv_transfer_params"} == set()
        stored = await system.client.get("/v1/responses/resp_blue", headers=bearer("acme"))
        assert stored.json()["error"]["code"] == "response_not_found"


async def test_media_have_names_of_the_tenant_s_own() -> None:
    engine, sent = FakeEngine(), []
    image = {"type": "image_url", "image_url": None, "uuid": "logo"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image, {**image, "uuid": 5}]}]
    async with gateway(engine, tenants=tenants()) as system:
        for name in ("acme", "blue", "acme"):
            await system.chat(bearer(name), messages=messages)
            parts = engine.last_body["messages"][0]["content"]
            assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
            sent.append((parts[1]["uuid"], parts[2]["uuid"]))
            assert "uuid" not in parts[0]
        await system.post("/v1/responses", {"model": "fake", "input": messages}, bearer("acme"))
        assert engine.last_body["input"][0]["content"][1]["uuid"] == sent[0][0]
    assert sent[0] == sent[2]
    assert len({"logo", "5", 5, *sent[0], *sent[1]}) == 7
    async with gateway(engine) as system:
        await system.chat(messages=messages)
        assert engine.last_body["messages"] == messages


@pytest.mark.parametrize("said", [{"priority": -5}, {"priority": 5}, {"nvext": {"agent_hints": {"priority": 9, "osl": 3}}}])
async def test_a_priority_of_a_tenant_s_reaches_no_engine_that_might_heed_it(said: dict[str, Any]) -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants()) as system:
        await system.chat(bearer("acme", **{"X-Vllm-Priority": "-7"}), **said)
        assert "x-vllm-priority" not in engine.last_headers
        assert "priority" not in engine.last_body
        assert engine.last_body.get("nvext", {"agent_hints": {"osl": 3}}) == {"agent_hints": {"osl": 3}}


async def test_who_has_a_budget_has_no_responses_in_the_background() -> None:
    engine = FakeEngine()
    body = {"model": "fake", "input": "hi", "background": True}
    async with gateway(engine, tenants=tenants(acme=Budget(tokens_per_minute=1000))) as system:
        refused = await system.post("/v1/responses", body, bearer("acme"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "background_not_metered")
        assert engine.requests == []
        assert (await system.post("/v1/responses", body, bearer("blue"))).status_code == 200


async def test_several_answers_are_several_calls_on_the_budget() -> None:
    engine = FakeEngine()
    budget = Budget(calls_per_minute=8, concurrent_calls=5, max_hold_s=0.0)
    async with gateway(engine, tenants=tenants(acme=budget)) as system:
        many = await system.chat(bearer("acme"), n=6)
        assert (many.status_code, many.json()["error"]["param"]) == (400, "n")
        assert "5 answers at a time; the call asks for 6" in many.json()["error"]["message"]
        statuses = [(await system.chat(bearer("acme"), n=n)).status_code for n in (5, 3, 1)]
        assert statuses == [200, 200, 429]


async def test_who_hangs_up_pays_for_what_the_engine_has_done() -> None:
    engine = FakeEngine(mode="hang")
    budget = Budget(tokens_per_minute=60, max_hold_s=0.0)
    async with gateway(engine, tenants=tenants(acme=budget)) as system:
        body, num_events = {**CHAT, "stream": True}, 0
        async with system.client.stream("POST", "/v1/chat/completions", json=body, headers=bearer("acme")) as answer:
            async for line in answer.aiter_lines():
                num_events += line.startswith("data:")
                if num_events > 70:
                    break
        await eventually(lambda: not system.table.calls)
        refused = await system.post("/v1/chat/completions", CHAT, bearer("acme"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_exceeded")


async def test_estimates_are_learned_from_a_tenant_s_own_calls() -> None:
    said = {"choices": [{"index": 0, "message": {"content": "a"}}], "usage": {"prompt_tokens": 4000, "completion_tokens": 1}}
    engine = FakeEngine(answer=JSONResponse(said))
    messages = [{"role": "user", "content": "x" * 1596}]
    async with gateway(engine, tenants=tenants()) as system:
        await system.chat(bearer("acme"), messages=messages)
        engine.answer, engine.mode = None, "hang"
        estimates = {}
        for name in ("acme", "blue"):
            call = asyncio.create_task(system.chat(bearer(name, **{"X-Agentix-Program": "p"}), messages=messages))
            await eventually(lambda: engine.num_active == 1)
            row = (await system.client.get("/v1/programs/p", headers=bearer(name))).json()
            estimates[name] = row["threads"][""][0]["prompt_tokens"]
            call.cancel()
            await eventually(lambda: engine.num_active == 0)
        assert estimates == {"acme": 4000, "blue": 400}
