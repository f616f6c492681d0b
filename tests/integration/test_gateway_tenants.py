"""Tenants over real sockets: who is let in, what nobody else sees, and what engines are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from agentix.core import ConfigError
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.config import HostedLimits
from agentix.gateway.tenants import Budget
from fake_engine import FakeEngine, served
from gateway_system import CHAT, System, eventually, gateway
from tenant_keys import KEYS, bearer, tenants

WRONG = "agx-wrong-" + "0123456789" * 4


async def rows(system: System, name: str, **query: str) -> list[tuple[str, str]]:
    listed = await system.client.get("/v1/programs", headers=bearer(name), params=query)
    return [(row["tenant"], row["id"]) for row in listed.json()["data"]]


@pytest.mark.parametrize("headers", [bearer("acme"), {"X-Api-Key": KEYS["acme"]}])
async def test_a_good_key_passes_and_stays_at_the_gateway(headers: dict[str, str]) -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants()) as system:
        response = await system.chat({**headers, "X-Agentix-Program": "p"})
        assert (response.status_code, response.headers["x-agentix-program"]) == (200, "p")
        assert KEYS["acme"] not in str(engine.requests)
        assert engine.last_headers.keys() & {"authorization", "x-api-key", "api-key"} == set()
        assert engine.last_headers["x-session-id"] == "acme/p"


async def test_missing_and_wrong_keys_get_the_same_401_and_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    wrong: list[dict[str, str]] = [{}, {"Authorization": f"Bearer {WRONG}"}, {"X-Api-Key": WRONG}]
    wrong.append({"Authorization": f"Basic {KEYS['acme']}"})
    async with gateway(engine, tenants=tenants()) as system:
        with caplog.at_level(logging.DEBUG):
            answers = [await system.chat(headers) for headers in wrong]
            answers.append(await system.client.get("/v1/programs", headers=wrong[1]))
            answers.append(await system.client.get("/nowhere", headers=wrong[1]))
        error = {
            "message": "the API key is missing or wrong; send it as Authorization: Bearer, or as x-api-key",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        }
        for answer in answers:
            assert (answer.status_code, answer.json()) == (401, {"error": error})
            assert answer.headers["www-authenticate"] == "Bearer"
        anthropic = await system.post("/v1/messages", CHAT, {"X-Api-Key": WRONG})
        assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (401, "authentication_error")
        assert system.table.rows == {}
    assert engine.requests == []
    assert "POST from 127.0.0.1 to '/v1/chat/completions': 401" in caplog.text
    assert WRONG not in caplog.text
    assert KEYS["acme"] not in caplog.text


async def test_health_is_open_but_tells_strangers_little_and_metrics_are_for_admins() -> None:
    async with gateway(FakeEngine(), tenants=tenants()) as system:
        for headers in ({}, bearer("acme")):
            health = await system.client.get("/health", headers=headers)
            assert (health.status_code, health.json().keys()) == (200, {"status", "version"})
        assert "engines" in (await system.client.get("/health", headers=bearer("root"))).json()
        for path in ("/metrics", "/v1/engines"):
            assert (await system.client.get(path)).status_code == 401
            refusal = await system.client.get(path, headers=bearer("acme"))
            assert (refusal.status_code, refusal.json()["error"]["code"]) == (403, "not_an_admin")
        metrics = await system.client.get("/metrics", headers=bearer("root"))
        for tenant, reason in (("", "unauthorized"), ("acme", "forbidden")):
            assert f'agentix_gateway_rejections_total{{reason="{reason}",tenant="{tenant}"}} 2.0' in metrics.text


async def test_no_spelling_of_the_path_shows_a_tenant_the_metrics() -> None:
    async with gateway(FakeEngine(), tenants=tenants()) as system:
        for path in ("/metrics%0A", "/metrics/", "//metrics", "/metrics%00", "/metrics%0D"):
            answer = await system.client.get(path, headers=bearer("acme"))
            assert answer.status_code in {403, 404}, path
            assert "agentix_gateway" not in answer.text


async def test_two_tenants_with_the_same_ids_and_prompts_have_nothing_in_common() -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants()) as system:
        sent = {}
        for name in ("acme", "blue", "acme"):
            headers = bearer(name, **{"X-Agentix-Program": "p", "X-Agentix-Call": "1"})
            response = await system.chat(headers, session_id="p", cache_salt="mine")
            assert (response.headers["x-agentix-program"], response.headers["x-agentix-call"]) == ("p", "1")
            sent[name] = (engine.last_headers["x-session-id"], engine.last_body["session_id"], engine.last_body["cache_salt"])
        assert {name: s[:2] for name, s in sent.items()} == {"acme": ("acme/p",) * 2, "blue": ("blue/p",) * 2}
        assert len({sent["acme"][2], sent["blue"][2], "mine"}) == 3
        assert {p.num_finished for p in system.table.rows.values()} == {1, 2}
        assert await rows(system, "acme") == [("acme", "p")]
        assert await rows(system, "blue") == [("blue", "p")]
        assert await rows(system, "root") == [("acme", "p"), ("blue", "p")]
        assert await rows(system, "root", tenant="blue") == [("blue", "p")]
        assert await rows(system, "acme", tenant="blue") == [("acme", "p")]  # only admins choose


async def test_the_programs_of_another_tenant_do_not_exist() -> None:
    async with gateway(FakeEngine(), tenants=tenants()) as system:
        await system.chat(bearer("acme", **{"X-Agentix-Program": "p"}))
        for method, path in (
            ("GET", "/v1/programs/p"),
            ("DELETE", "/v1/programs/p"),
            ("POST", "/v1/programs/p/cancel"),
            ("GET", "/v1/programs/acme%1Fp"),
            ("DELETE", "/v1/programs/acme%2Fp"),
        ):
            for query in ({}, {"tenant": "acme"}):
                assert (await system.client.request(method, path, headers=bearer("blue"), params=query)).status_code == 404
        assert (await system.post("/programs/release", {"program_id": "p"}, bearer("blue"))).status_code == 404
        started = await system.post("/v1/programs", {"program_id": "p"}, bearer("blue"))
        assert (started.status_code, started.json()["num_finished"]) == (201, 0)
        ended = await system.client.delete("/v1/programs/p", headers=bearer("root"), params={"tenant": "acme"})
        assert (ended.status_code, ended.json()["num_finished"]) == (200, 1)
        assert await rows(system, "root") == [("blue", "p")]


async def test_cancelling_a_program_leaves_its_namesake_alone() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, tenants=tenants()) as system:
        calls = {n: asyncio.create_task(system.chat(bearer(n, **{"X-Agentix-Program": "p"}))) for n in ("acme", "blue")}
        await eventually(lambda: engine.num_active == 2)
        cancelled = await system.client.post("/v1/programs/p/cancel", headers=bearer("acme"))
        assert (cancelled.json()["id"], len(cancelled.json()["cancelled"])) == ("p", 1)
        assert "'p'" in (await calls["acme"]).json()["error"]["message"]
        await eventually(lambda: engine.num_active == 1)
        assert not calls["blue"].done()
        engine.mode = "ok"
        await system.client.post("/v1/programs/p/cancel", headers=bearer("blue"))
        assert (await calls["blue"]).status_code == 499


async def test_the_same_conversation_of_two_tenants_is_two_programs() -> None:
    async with gateway(FakeEngine(), tenants=tenants()) as system:
        said = [{"role": "user", "content": "hi"}]
        grown = [*said, {"role": "assistant", "content": "héllo"}, {"role": "user", "content": "more"}]
        first = (await system.chat(bearer("acme"), messages=said)).headers["x-agentix-program"]
        stranger = (await system.chat(bearer("blue"), messages=grown)).headers["x-agentix-program"]
        own = (await system.chat(bearer("acme"), messages=grown)).headers["x-agentix-program"]
        assert (own == first, stranger == first) == (True, False)
        assert len(system.table.rows) == 2


async def test_a_stored_response_is_its_tenant_s_alone() -> None:
    engine = FakeEngine(answer=JSONResponse({"id": "resp_1", "output": [], "usage": {}}))
    asked: list[str] = []

    async def stored(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await JSONResponse({"id": "resp_1"})(scope, receive, send)

    app = engine.app
    app.mount("/v1/responses", stored)
    async with served(app) as url, gateway(extra=(url,), tenants=tenants()) as system:
        assert (await system.post("/v1/responses", {"model": "fake", "input": "hi"}, bearer("acme"))).status_code == 200
        assert (await system.client.get("/v1/responses/resp_1", headers=bearer("acme"))).json() == {"id": "resp_1"}
        assert asked == ["/v1/responses/resp_1"]
        for method, path in (("GET", "resp_1"), ("DELETE", "resp_1"), ("POST", "resp_1/cancel"), ("GET", "resp_2")):
            answer = await system.client.request(method, f"/v1/responses/{path}", headers=bearer("blue"))
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_found")
        assert len(asked) == 1
        after = {"model": "fake", "input": "more", "previous_response_id": "resp_1"}
        assert (await system.post("/v1/responses", after, bearer("acme"))).status_code == 200
        answer = await system.post("/v1/responses", after, bearer("blue"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "previous_response_not_found")
        assert len(engine.requests) == 2


async def test_over_its_budget_a_tenant_is_refused_and_no_other() -> None:
    engine = FakeEngine()
    async with gateway(engine, tenants=tenants(acme=Budget(calls_per_minute=1, max_hold_s=0.0))) as system:
        assert (await system.chat(bearer("acme"))).status_code == 200
        refusal = await system.chat(bearer("acme"))
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (429, "budget_exceeded")
        assert 1 <= int(refusal.headers["retry-after"]) <= 60
        assert "tenant 'acme' is over its budget of 1 calls a minute" in refusal.json()["error"]["message"]
        anthropic = await system.post("/v1/messages", CHAT, bearer("acme"))
        assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (429, "rate_limit_error")
        assert (await system.chat(bearer("blue"))).status_code == 200
        assert len(engine.requests) == 2
        assert system.table.calls == {}


async def test_a_call_over_budget_is_held_until_there_is_room_and_other_tenants_pass() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, tenants=tenants(acme=Budget(concurrent_calls=1))) as system:
        calls = {}
        for name, program_id in (("acme", "p"), ("acme", "q"), ("blue", "p")):
            headers = bearer(name, **{"X-Agentix-Program": program_id})
            calls[name + program_id] = asyncio.create_task(system.chat(headers))
            await eventually(lambda: len(system.table.calls) == len(calls))
        await eventually(lambda: engine.num_active == 2)
        assert [headers["x-session-id"] for headers, _ in engine.requests] == ["acme/p", "blue/p"]
        held = (await system.client.get("/v1/programs/q", headers=bearer("acme"))).json()["threads"][""][0]
        assert held["state"] == "held"
        assert "its tenant is over budget" in held["waits_for"]
        await system.client.post("/v1/programs/p/cancel", headers=bearer("acme"))
        await eventually(lambda: len(engine.requests) == 3)
        assert engine.last_headers["x-session-id"] == "acme/q"
        for name, program_id in (("acme", "q"), ("blue", "p")):
            await system.client.post(f"/v1/programs/{program_id}/cancel", headers=bearer(name))
        assert [(await call).status_code for call in calls.values()] == [499] * 3


async def test_in_engines_no_tenant_gets_ahead_of_others_by_its_own_word() -> None:
    engine = FakeEngine()
    budget = Budget(calls_per_minute=4, soft=0.4)
    async with gateway(engine, plugin=True, tenants=tenants(acme=budget)) as system:
        said = []
        for headers, body in (
            ({}, {"priority": -5}),
            ({"X-Vllm-Priority": "2"}, {"vllm_xargs": {"agentix_weight": 9.0, "agentix_service_s": 0.0, "mine": 1}}),
            ({}, {}),  # half of the budget is used
            ({}, {"priority": -5}),
        ):
            await system.chat(bearer("acme", **{"X-Agentix-Program": "p", **headers}), **body)
            said.append(engine.last_headers.get("x-vllm-priority"))
        assert said == ["0", "2", "1", "1"]
        second = engine.requests[1][1]["vllm_xargs"]
        assert (second["mine"], second["agentix_service_s"] > 0, "agentix_weight" in second) == (1, True, False)
        for name, weight, status in (("acme", 1.5, 403), ("acme", 0.5, 200), ("root", 2.0, 200)):
            changed = await system.client.patch(
                "/v1/programs/p", headers=bearer(name), json={"weight": weight}, params={"tenant": "acme"}
            )
            assert changed.status_code == status


class KeyedEngine(FakeEngine):
    """Wants a key below /v1, as vLLM does with --api-key."""

    @property
    def app(self) -> Any:
        inner: Starlette = super().app

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            key = dict(scope.get("headers", [])).get(b"authorization")
            if scope["type"] == "http" and scope["path"].startswith("/v1") and key != b"Bearer engine-key":
                await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)
                return
            await inner(scope, receive, send)

        return guarded


@asynccontextmanager
async def keyed_engine(monkeypatch: pytest.MonkeyPatch, **config: Any) -> AsyncIterator[tuple[KeyedEngine, System]]:
    """A gateway that has the key of the engine behind it."""
    monkeypatch.setenv("ENGINE_KEY", "engine-key")
    engine = KeyedEngine()
    async with served(engine.app) as url:
        target = EngineTarget(engine_id="e0", url=url, api_key_env="ENGINE_KEY")
        app = create_app(GatewayConfig(engines=(target,), health_period_s=0.05, **config))
        async with served(app) as gateway_url, httpx2.AsyncClient(base_url=gateway_url, trust_env=False) as client:
            yield engine, System(client, gateway_url, [engine], app)


@pytest.mark.parametrize(
    ("settings", "headers"),
    [({}, {}), ({}, {"Authorization": "Bearer other", "X-Api-Key": "k"}), ({"tenants": tenants()}, bearer("acme"))],
)
async def test_the_engine_s_own_key_replaces_the_client_s(
    settings: dict[str, Any], headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keyed_engine(monkeypatch, **settings) as (engine, system):
        assert (await system.chat(headers)).status_code == 200
        assert engine.last_headers["authorization"] == "Bearer engine-key"
        assert "x-api-key" not in engine.last_headers
        await system.models_known()
        assert [m["id"] for m in (await system.client.get("/v1/models", headers=headers)).json()["data"]] == ["fake"]
        engine.answer = Response("{}", media_type="application/json")
        for path in ("/v1/completions", "/v1/messages"):
            assert (await system.post(path, CHAT, headers)).status_code == 200


async def test_without_one_the_client_s_key_passes_and_a_gateway_s_key_does_not() -> None:
    engine = KeyedEngine()
    async with gateway(engine) as system:
        assert (await system.chat({"Authorization": "Bearer engine-key"})).status_code == 200
    async with gateway(engine, tenants=tenants()) as system:
        assert (await system.chat(bearer("acme"))).status_code == 401
    assert len(engine.requests) == 1


def test_an_engine_s_key_must_be_there() -> None:
    with pytest.raises(ConfigError, match=r"engine 'e': the environment variable 'NO_SUCH_KEY' \(its key\) is not set"):
        EngineTarget(engine_id="e", url="http://a", api_key_env="NO_SUCH_KEY")


async def test_salts_are_for_tenants_and_for_engines_of_one_s_own() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        await system.chat(cache_salt="mine")
        assert engine.last_body["cache_salt"] == "mine"
        await system.chat()
        assert "cache_salt" not in engine.last_body
    async with served(engine.app) as url:
        target = EngineTarget(engine_id="e0", url=url, hosted=HostedLimits())
        app = create_app(GatewayConfig(engines=(target,), tenants=tenants()))
        async with served(app) as gateway_url, httpx2.AsyncClient(base_url=gateway_url, trust_env=False) as client:
            assert (await client.post("/v1/chat/completions", json=CHAT, headers=bearer("acme"))).status_code == 200
            assert "cache_salt" not in engine.last_body
    async with gateway(engine, tenants=tenants()) as system:
        assert (await system.chat(bearer("acme"), cache_salt=3)).status_code == 400


async def test_web_pages_read_answers_only_if_their_origin_is_named() -> None:
    wants = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    asks = {**wants, "Origin": "https://a.example"}
    async with gateway(FakeEngine(), tenants=tenants(), cors_origins=("https://a.example",)) as system:
        preflight = await system.client.options("/v1/chat/completions", headers=asks)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, "https://a.example")
        assert "access-control-allow-credentials" not in preflight.headers
        answer = await system.chat({**bearer("acme"), "Origin": "https://a.example"})
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        refusal = await system.client.options("/v1/chat/completions", headers={**asks, "Origin": "https://b.example"})
        assert refusal.status_code == 400
        assert (
            "access-control-allow-origin" not in (await system.chat({**bearer("acme"), "Origin": "https://b.example"})).headers
        )
    async with gateway(FakeEngine()) as system:
        answer = await system.chat({"Origin": "https://a.example"})
        assert not any(name.startswith("access-control") for name in answer.headers)
