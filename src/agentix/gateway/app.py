"""The gateway as an ASGI application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentix import __version__
from agentix.core.balancers import make_balancer
from agentix.core.process_table import ProcessTable
from agentix.gateway.apis import APIS
from agentix.gateway.config import GatewayConfig
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError, wants_anthropic
from agentix.gateway.exchange import Exchange
from agentix.gateway.exposition import Exposition
from agentix.gateway.forward import Forward
from agentix.gateway.identity import Sessions
from agentix.gateway.lifetimes import Lifetimes
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.models import Models
from agentix.gateway.programs import Programs
from agentix.gateway.prompt_length import PromptLength
from agentix.gateway.relay import Relay

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
    metrics = GatewayMetrics()
    exchange = Exchange(
        table=table,
        pool=pool,
        models=Models(pool),
        balancer=make_balancer(config.balancer),
        sessions=Sessions(),
        lifetimes=Lifetimes(table, max_idle_s=config.program_idle_s, on_over=metrics.program_over),
        prompt_length=PromptLength(),
        metrics=metrics,
        max_body_bytes=config.max_body_bytes,
        normalise_preambles=config.normalise_preambles,
    )
    forward = Forward(pool, exchange.models, exchange.sessions, max_body_bytes=config.max_body_bytes)
    programs = Programs(exchange)
    exposition = Exposition(metrics, table, pool.states)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(pool.watch()),
            asyncio.create_task(_end_idle(exchange.lifetimes, min(5.0, config.program_idle_s / 10))),
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()

    async def health(request: Request) -> Response:
        return report_health(pool, table)

    app = Starlette(
        routes=[
            *(Route(api.path, Relay(api, exchange) if api.scheduled else forward.tokens, methods=["POST"]) for api in APIS),
            Route("/v1/responses/{rest:path}", forward.stored, methods=["GET", "POST", "DELETE"]),
            Route("/v1/models", exchange.models.show_all),
            Route("/v1/models/{model:path}", exchange.models.show),
            Route("/v1/programs", programs.list, methods=["GET"]),
            Route("/v1/programs", programs.start, methods=["POST"]),
            Route("/v1/programs/{program_id:path}/cancel", programs.cancel, methods=["POST"]),
            Route("/v1/programs/{program_id:path}", programs.get, methods=["GET"]),
            Route("/v1/programs/{program_id:path}", programs.end, methods=["DELETE"]),
            Route("/programs/release", programs.release, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", exposition.show),
        ],
        exception_handlers=dict.fromkeys((HTTPError, HTTPException, ClientDisconnect, Exception), _http_error),
        lifespan=lifespan,
    )
    app.state.table = table
    app.state.pool = pool
    return app


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


async def _end_idle(lifetimes: Lifetimes, period_s: float) -> None:
    while True:
        await asyncio.sleep(period_s)
        lifetimes.expire(time.monotonic())


async def _http_error(request: Request, error: Exception) -> Response:
    """An HTTPError is its own answer; Starlette's unknown path or method gets the shape that the client's API has."""
    if isinstance(error, HTTPException):
        error = HTTPError(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}")
    elif not isinstance(error, HTTPError):
        error = HTTPError(500, "internal error", "server_error")
    return error.response(anthropic=wants_anthropic(request.scope["path"], request.headers))
