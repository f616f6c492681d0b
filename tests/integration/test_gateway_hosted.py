"""Somebody else's API behind the gateway: its key, what it gets, its limits, and storms of refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.config import HostedLimits
from fake_engine import served
from gateway_system import CHAT, System

KEY = "the-gateway-s-own-key"
# What OpenAI's chat completions take, of the fields in question here; it refuses others by name.
_KNOWN = {"model", "messages", "stream", "stream_options", "user", "metadata", "prompt_cache_key", "max_tokens", "temperature"}


@dataclass
class Hosted:
    """A hosted API below /api/v1: wants its key, refuses unknown fields, and more than `most` calls at a time."""

    most: int = 1000
    retry_after: str | None = "0.1"
    over_quota: bool = False
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    num_active: int = 0
    num_refused: int = 0

    @property
    def app(self) -> Starlette:
        routes = [Route("/chat/completions", self.complete, methods=["POST"]), Route("/models", self.models)]
        return Starlette(routes=[Mount("/api/v1", routes=routes), Route("/{rest:path}", self.nothing, methods=["GET", "POST"])])

    async def nothing(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        return JSONResponse({"error": {"message": "no such path"}}, 404)

    async def models(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        assert request.headers["authorization"] == f"Bearer {KEY}"
        return JSONResponse({"data": [{"id": "fake"}]})

    async def complete(self, request: Request) -> Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in request.headers
        body = await request.json()
        if unknown := body.keys() - _KNOWN:
            return JSONResponse({"error": {"message": f"Unrecognized request argument supplied: {min(unknown)}"}}, 400)
        if self.over_quota:
            return JSONResponse({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, 429)
        if self.num_active >= self.most:
            self.num_refused += 1
            headers = {} if self.retry_after is None else {"retry-after": self.retry_after}
            return JSONResponse({"error": {"message": "slow down"}}, 429, headers=headers)
        self.bodies.append(body)
        self.num_active += 1
        await asyncio.sleep(0.02)
        self.num_active -= 1
        return JSONResponse({"choices": [{"index": 0, "message": {"content": "a"}}], "usage": {"prompt_tokens": 3}})


@asynccontextmanager
async def hosted(api: Hosted, limits: HostedLimits | None = None, **config: Any) -> AsyncIterator[System]:
    async with served(api.app) as url:
        target = EngineTarget(
            engine_id="cloud", url=f"{url}/api/v1", hosted=limits or HostedLimits(), api_key_env="AGENTIX_ENGINE_KEY_TEST"
        )
        app = create_app(GatewayConfig(engines=(target,), **{"health_period_s": 0.05, **config}))
        async with served(app) as at, httpx2.AsyncClient(base_url=at, trust_env=False, timeout=60) as client:
            yield System(client, at, [api], app)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_ENGINE_KEY_TEST", KEY)


async def test_it_gets_its_own_key_and_nothing_it_would_refuse() -> None:
    api = Hosted()
    vendor = {
        "session_id": "s",
        "program_id": "s",
        "priority": 3,
        "vllm_xargs": {"a": 1},
        "nvext": {"agent_hints": {"priority": 1}},
        "session_params": {"session_id": "s"},
        "cache_salt": "x",
        "is_last_step": False,
    }
    async with hosted(api) as system:
        answer = await system.chat({"Authorization": "Bearer mine", "x-api-key": "mine"}, **vendor, user="u")
        assert (answer.status_code, answer.headers["x-agentix-program"]) == (200, "s")
        assert api.bodies == [{**CHAT, "user": "u"}]


async def test_it_is_asked_for_its_models_alone_and_seldom() -> None:
    api = Hosted()
    async with hosted(api) as system:
        await system.models_known()
        await asyncio.sleep(0.3)  # six health periods
        assert api.paths == ["/api/v1/models"]
        assert (await system.client.get("/v1/engines/cloud")).json()["hosted"]


async def test_a_storm_of_refusals_reaches_no_client() -> None:
    api = Hosted(most=2)
    async with hosted(api) as system:
        calls = [system.chat({"X-Agentix-Program": f"p{n}"}) for n in range(20)]
        answers = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert [a.status_code for a in answers] == [200] * 20
        assert len(api.bodies) == 20
        assert api.num_refused < 40  # 18 at once, then half as many each time
        rows = (await system.client.get("/v1/programs")).json()["data"]
        assert [(r["num_finished"], r["num_aborted"]) for r in rows] == [(1, 0)] * 20


async def test_calls_at_a_time_are_kept_to() -> None:
    api = Hosted(most=2)
    async with hosted(api, HostedLimits(concurrency=2)) as system:
        answers = await asyncio.gather(*(system.chat() for _ in range(10)))
        assert [a.status_code for a in answers] == [200] * 10
        assert api.num_refused == 0


async def test_an_account_without_money_is_no_matter_of_patience() -> None:
    async with hosted(Hosted(over_quota=True)) as system:
        answer = await system.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_quota")
