"""What an engine's pod runs before it stops: the gateway sends it no more calls, and it waits for those that it has."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentix.gateway.tenants import Tenant, Tenants
from fake_engine import FakeEngine, served
from gateway_system import eventually, gateway

SCRIPT = Path(__file__).parents[2] / "deploy" / "kubernetes" / "drain.py"
KEY = "k" * 40


class BusyEngine(FakeEngine):
    """Tells, as vLLM does, that it has so many calls."""

    num_calls = 1

    async def metrics(self, request: object) -> PlainTextResponse:
        waiting = 'vllm:num_requests_waiting{engine="0",model_name="m"} 0.0\n'
        return PlainTextResponse(f'vllm:num_requests_running{{engine="0",model_name="m"}} {self.num_calls}.0\n{waiting}')


async def run(what: str, gateway_url: str, engine_url: str) -> asyncio.subprocess.Process:
    parts = urlsplit(gateway_url)
    env = {
        "PATH": os.environ["PATH"],
        "POD_NAME": "e0",
        "AGENTIX_API_KEY": KEY,
        "AGENTIX_GATEWAYS": parts.hostname or "",
        "AGENTIX_GATEWAY_PORT": str(parts.port),
        "AGENTIX_ENGINE_URL": engine_url,
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), what, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )


async def test_it_drains_waits_and_comes_back() -> None:
    engine, other = BusyEngine(), FakeEngine()
    app = engine.app
    app.router.routes.append(Route("/metrics", engine.metrics))
    digest = hashlib.sha256(KEY.encode()).digest()
    tenants = Tenants((Tenant(name="ops", key_digests=(digest,), admin=True),))
    async with served(app) as engine_url, gateway(other, extra=(engine_url,), tenants=tenants) as system:
        state = system.app.state.pool.states["e0"]
        draining = await run("drain", system.url, engine_url)
        await eventually(lambda: state.draining)
        answer = await system.chat({"authorization": f"Bearer {KEY}"})
        assert answer.headers["x-agentix-engine"] == "e1"
        with pytest.raises(TimeoutError):  # it has a call yet
            await asyncio.wait_for(draining.wait(), 1.5)
        engine.num_calls = 0
        said, _ = await asyncio.wait_for(draining.communicate(), 10)
        assert (draining.returncode, said.decode()) == (0, f"drain e0 at {system.url}: draining\n")
        back = await run("undrain", system.url, engine_url)
        said, _ = await asyncio.wait_for(back.communicate(), 10)
        assert (back.returncode, said.decode()) == (0, f"undrain e0 at {system.url}: takes calls\n")
        assert not state.draining


async def test_gateways_that_are_gone_do_not_keep_it() -> None:
    alone = await run("drain", "http://127.0.0.1:9", "http://127.0.0.1:9")
    said, _ = await asyncio.wait_for(alone.communicate(), 15)
    assert alone.returncode == 0
    assert said.startswith(b"drain e0 at http://127.0.0.1:9: ")
