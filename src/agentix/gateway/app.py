"""The gateway as an ASGI application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentix import __version__
from agentix.core.balancers import make_balancer
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.admission import Admission
from agentix.gateway.apis import APIS
from agentix.gateway.budgets import Budgets
from agentix.gateway.changes import Changes, standing_of
from agentix.gateway.concurrency import LoadWatch
from agentix.gateway.config import GatewayConfig
from agentix.gateway.decision_log import DecisionLog, LoggedTable
from agentix.gateway.engine_admin import EngineAdmin, describe_engine
from agentix.gateway.engine_client import make_client, make_transport
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError, wants_anthropic
from agentix.gateway.exchange import Exchange
from agentix.gateway.exposition import Exposition
from agentix.gateway.forward import Forward
from agentix.gateway.gate import Gate
from agentix.gateway.identity import Sessions
from agentix.gateway.lifetimes import Lifetimes
from agentix.gateway.metering import Metering
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.models import Models
from agentix.gateway.observer import Observer, Observers
from agentix.gateway.open_gate import OpenGate
from agentix.gateway.programs import Programs
from agentix.gateway.prompt_length import PromptLength
from agentix.gateway.rebalancing import Rebalancing
from agentix.gateway.recent_calls import RecentCalls
from agentix.gateway.recordings import Recordings
from agentix.gateway.relay import Relay
from agentix.gateway.tenants import Tenants, is_admin
from agentix.gateway.ui import ui_routes
from agentix.gateway.weighing import Weighing
from agentix.wire import CALL_HEADER, ENGINE_HEADER, LEVEL_HEADER, PROGRAM_HEADER, QUEUE_MS_HEADER

Companion = Callable[[Exchange], AbstractAsyncContextManager[None]]
"""What goes on beside the gateway: entered before its first call, left after its last."""


def create_app(config: GatewayConfig, *, observers: Iterable[Observer] = (), companions: Iterable[Companion] = ()) -> Starlette:
    """The application for `config`. `observers` are told how every call fares, `companions` go on as long as it does.

    Raises ConfigError for an unknown balancer and for a decision log that cannot be written. Everything it holds lives in
    `app.state`: table, pool, admission, and `adopt_tenants`, which gives it other tenants while it runs.
    """
    transport = make_transport()
    client = make_client(transport)
    pool = EnginePool(config.engines, client, config.health_period_s)
    balancer = make_balancer(config.balancer)
    decisions = DecisionLog(config.decision_log, config) if config.decision_log is not None else None
    table = ProcessTable() if decisions is None else LoggedTable(decisions)
    metrics = GatewayMetrics()
    recent_calls = RecentCalls(table)
    recordings = Recordings(table)
    budgets = Budgets(config.tenants.all)
    admission = Admission(table, pool, config.admission, budgets, on_decision=None if decisions is None else decisions.decided)
    weighing = Weighing(pool, admission, metrics, on_choice=None if decisions is None else decisions.chose)
    rebalancing = Rebalancing(table, pool, admission.turns, weighing, balancer)
    observer = Observers([Metering(metrics, table), recent_calls, recordings, weighing, *observers])
    watch = LoadWatch(
        client,
        admission.turns.watched,
        forced=config.admission.tier != "auto",
        on_change=admission.pump,
        on_load=weighing.loaded,
    )

    def on_over(row: ProgramRow) -> None:
        admission.program_over(row)
        observer.program_over(row)

    exchange = Exchange(
        table=table,
        pool=pool,
        transport=transport,
        models=Models(pool),
        balancer=balancer,
        sessions=Sessions(),
        lifetimes=Lifetimes(table, max_idle_s=config.program_idle_s, on_over=on_over, on_end=observer.program_ended),
        prompt_length=PromptLength(),
        metrics=metrics,
        max_body_bytes=config.max_body_bytes,
        normalise_preambles=config.normalise_preambles,
        tenants=config.tenants,
        budgets=budgets,
        admission=admission,
        weighing=weighing,
        observer=observer,
    )
    forward = Forward(pool, transport, exchange.models, exchange.sessions, max_body_bytes=config.max_body_bytes)
    programs = Programs(exchange)
    changes = Changes(table, programs.describe, paused=admission.paused, standing=standing_of(admission))
    exposition = Exposition(metrics, table, pool, admission)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(pool.watch()),
            asyncio.create_task(admission.run()),
            asyncio.create_task(rebalancing.run()),
            asyncio.create_task(watch.run()),
            asyncio.create_task(_end_idle(exchange.lifetimes, min(5.0, config.program_idle_s / 10))),
        ]
        async with AsyncExitStack() as stack:
            for companion in companions:
                await stack.enter_async_context(companion(exchange))
            yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()
        await asyncio.to_thread(observer.close)
        if decisions is not None:
            decisions.close()

    def adopt_tenants(tenants: Tenants) -> None:
        config.tenants.adopt(tenants)
        budgets.adopt(config.tenants.all)

    async def health(request: Request) -> Response:
        return report_health(pool, table, admission, details=is_admin(request))

    app = Starlette(
        routes=[
            *(Route(api.path, Relay(api, exchange) if api.scheduled else forward.tokens, methods=["POST"]) for api in APIS),
            Route("/v1/responses/{rest:path}", forward.stored, methods=["GET", "POST", "DELETE"]),
            Route("/v1/models", exchange.models.show_all),
            Route("/v1/models/{model:path}", exchange.models.show),
            Route("/v1/programs", programs.list, methods=["GET"]),
            Route("/v1/programs", programs.start, methods=["POST"]),
            Route("/v1/programs/{program_id:path}/cancel", programs.cancel, methods=["POST"]),
            Route("/v1/programs/{program_id:path}/pause", programs.pause, methods=["POST"]),
            Route("/v1/programs/{program_id:path}/resume", programs.resume, methods=["POST"]),
            Route("/v1/programs/{program_id:path}", programs.change, methods=["PATCH"]),
            Route("/v1/programs/{program_id:path}", programs.get, methods=["GET"]),
            Route("/v1/programs/{program_id:path}", programs.end, methods=["DELETE"]),
            Route("/programs/release", programs.release, methods=["POST"]),
            *EngineAdmin(pool, config.tenants, admission).routes(),
            Route("/v1/changes", changes.show),
            Route("/v1/calls", recent_calls.show),
            *recordings.routes(),
            *ui_routes(),
            Route("/health", health),
            Route("/metrics", exposition.show),
        ],
        exception_handlers=dict.fromkeys((HTTPError, HTTPException, ClientDisconnect, Exception), _http_error),
        middleware=list(_middleware(config, metrics)),
        lifespan=lifespan,
    )
    app.state.table = table
    app.state.pool = pool
    app.state.admission = admission
    app.state.adopt_tenants = adopt_tenants
    return app


def _middleware(config: GatewayConfig, metrics: GatewayMetrics) -> Iterator[Middleware]:
    """What stands before the routes, outermost first: a browser's question about other origins brings no key."""
    if config.cors_origins:
        yield Middleware(
            CORSMiddleware,
            allow_origins=config.cors_origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=[PROGRAM_HEADER, CALL_HEADER, ENGINE_HEADER, QUEUE_MS_HEADER, LEVEL_HEADER],
        )
    if not config.tenants.is_open:
        yield Middleware(Gate, tenants=config.tenants, on_refused=metrics.rejected)
        return
    yield Middleware(
        OpenGate,
        hosts=config.allowed_hosts,
        origins=config.cors_origins,
        remote=config.remote_clients,
        on_refused=metrics.rejected,
    )


def report_health(pool: EnginePool, table: ProcessTable, admission: Admission, *, details: bool = True) -> Response:
    """GET /health: 200 while at least one engine can take calls, else 503; with the state of each, if `details`."""
    engines = [describe_engine(state, admission) for state in pool.states.values()]
    num_healthy = sum(s.healthy for s in pool.states.values())
    status = "unavailable" if not num_healthy else "ok" if num_healthy == len(engines) else "degraded"
    body = {"status": status, "version": __version__, "engines": engines, "num_programs": len(table.rows)}
    if not details:
        body = {key: body[key] for key in ("status", "version")}
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
