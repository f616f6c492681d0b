"""The gateway as an ASGI application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentix import __version__
from agentix.core.balancers import make_balancer
from agentix.core.events import ProgramEnded
from agentix.core.process_table import ProcessTable
from agentix.gateway.config import GatewayConfig
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError
from agentix.gateway.programs import Programs
from agentix.gateway.relay import Relay
from agentix.gateway.upstream import upstream_auth

# A call may be held in an engine's queue for as long as it takes; only reaching the engine is bounded.
_TIMEOUT = httpx2.Timeout(None, connect=5.0, write=60.0)
# vLLM closes connections that were idle for 5 s; a call sent at that very moment would be lost.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=3.0)


def create_app(config: GatewayConfig) -> Starlette:
    """The application for `config`.

    Raises ConfigError for an unknown balancer. Everything it holds lives in `app.state`: table, pool.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # one client's cookies are not for the next one's calls
    client = httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, cookies=no_cookies)
    pool = EnginePool(config.engines, client, config.health_period_s)
    table = ProcessTable()
    relay = Relay(table, pool, make_balancer(config.balancer), max_body_bytes=config.max_body_bytes)
    programs = Programs(table, max_body_bytes=config.max_body_bytes)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(pool.watch()), asyncio.create_task(_end_idle(table, config.program_idle_s))]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()

    async def models(request: Request) -> Response:
        return await list_models(pool, request)

    async def health(request: Request) -> Response:
        return report_health(pool, table)

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", relay, methods=["POST"]),
            Route("/v1/completions", relay, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/programs", programs.list, methods=["GET"]),
            Route("/v1/programs", programs.start, methods=["POST"]),
            Route("/v1/programs/{program_id:path}", programs.get, methods=["GET"]),
            Route("/v1/programs/{program_id:path}", programs.end, methods=["DELETE"]),
            Route("/health", health),
        ],
        exception_handlers=dict.fromkeys((HTTPError, HTTPException, ClientDisconnect, Exception), _http_error),
        lifespan=lifespan,
    )
    app.state.table = table
    app.state.pool = pool
    return app


async def list_models(pool: EnginePool, request: Request) -> Response:
    """GET /v1/models: the models of all engines, each once, as the engines describe them."""
    urls = [s.target.url for s in pool.states.values() if s.healthy]
    headers = upstream_auth(request.headers)
    answers = await asyncio.gather(
        *(pool.client.get(f"{url}/v1/models", headers=headers, timeout=10.0) for url in urls), return_exceptions=True
    )
    responses = [a for a in answers if isinstance(a, httpx2.Response)]
    good = [r for r in responses if r.status_code == 200]
    if not good and responses:
        return Response(responses[0].content, responses[0].status_code, media_type="application/json")
    if not good:
        raise HTTPError.no_engine()
    models: dict[str, Any] = {}
    for response in good:
        with suppress(ValueError, KeyError, TypeError):  # whatever this server lists, it is no models
            for model in response.json()["data"]:
                models.setdefault(model["id"], model)
    return JSONResponse({"object": "list", "data": list(models.values())})


def report_health(pool: EnginePool, table: ProcessTable) -> Response:
    """GET /health: 200 while at least one engine can take calls, else 503; with the state of each."""
    engines = [
        {
            "id": s.target.engine_id,
            "url": s.target.url,
            "healthy": s.healthy,
            "program_scheduling": s.target.plugin,
            "num_calls": s.num_calls,
        }
        for s in pool.states.values()
    ]
    num_healthy = sum(s.healthy for s in pool.states.values())
    status = "ok" if num_healthy == len(engines) else "degraded" if num_healthy else "unavailable"
    body = {"status": status, "version": __version__, "engines": engines, "num_programs": len(table.rows)}
    return JSONResponse(body, status_code=200 if num_healthy else 503)


async def _end_idle(table: ProcessTable, idle_s: float) -> None:
    """End programs that were forgotten by their clients, so that they cost nothing."""
    while True:
        await asyncio.sleep(idle_s / 10)
        now = time.monotonic()
        for program_id in table.stale(now, idle_s):
            table.apply(ProgramEnded(now=now, program_id=program_id))


async def _http_error(request: Request, error: Exception) -> Response:
    """An HTTPError is its own answer; Starlette's unknown path or method gets the shape that OpenAI clients read."""
    if isinstance(error, HTTPException):
        error = HTTPError(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}")
    return error.response() if isinstance(error, HTTPError) else HTTPError(500, "internal error", "server_error").response()
