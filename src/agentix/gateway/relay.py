"""One call's way through the gateway: identify, route, send, relay, account."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from agentix.core.balancers import LoadBalancer
from agentix.core.events import CallAborted, CallArrived, CallFinished, CallMoved, CallStarted, ProgramEnded
from agentix.core.process_table import ProcessTable
from agentix.gateway.accounting import Account, StreamAccount, read_json
from agentix.gateway.body import read_object
from agentix.gateway.downstream import Downstream
from agentix.gateway.engines import EnginePool
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Identity, identify
from agentix.gateway.upstream import client_headers, estimate_tokens, upstream_body, upstream_headers

logger = logging.getLogger(__name__)


class EngineLost(Exception):
    """The engine broke off in the middle of a call."""


@dataclass(slots=True)
class _Call:
    """A call on its way, and how it came out.

    `key` is its id in the table: a program's calls may be numbered 1, 2, 3 like another's. `reason`: why it has not
    finished; None once it has.
    """

    request: Request
    body: dict[str, Any]
    identity: Identity
    call_id: str = ""
    key: str = ""
    arrived_s: float = field(default_factory=time.monotonic)
    account: Account = field(default_factory=Account)
    reason: str | None = "client disconnected"


class Relay:
    """ASGI endpoint for a call: the engine's answer, byte for byte, with the program's row kept true on the way.

    The client may go away at any moment: the call is then cancelled in the engine (its connection is closed) and
    recorded as aborted. An engine that cannot be reached is skipped for the next in the balancer's ranking; once an
    engine has taken the call, it stays with it.
    """

    def __init__(self, table: ProcessTable, pool: EnginePool, balancer: LoadBalancer, *, max_body_bytes: int) -> None:
        self._table = table
        self._pool = pool
        self._balancer = balancer
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        request = Request(scope, receive)
        client = Downstream(scope, receive, send)
        try:
            body = await read_object(request, self._max_body_bytes)
            call = _Call(request, body, identify(request.headers, body))
            engine_ids = self._arrive(call)
        except HTTPError as error:
            await client.respond(error.response())
            return
        except ClientDisconnect:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(client.cancel_when_gone, group.cancel_scope)
            try:
                await self._serve(call, engine_ids, client)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if group.cancel_scope.cancel_called or call.reason is None or task is None:
                    raise
                task.uncancel()  # the server stops; what is left is to say so
                call.reason = "the gateway stopped"
                await client.fail(HTTPError(503, "the gateway stops; try again", "overloaded_error", retry_after_s=5))
            finally:
                self._close(call)
                group.cancel_scope.cancel()

    def _arrive(self, call: _Call) -> tuple[str, ...]:
        """Enter the call into the table; returns the engines to try, best first.

        A call whose id is still active (a client's early retry) enters under a longer one.
        """
        identity = call.identity
        engines = self._pool.healthy()
        if not engines:
            raise HTTPError.no_engine()
        prompt_tokens = estimate_tokens(call.body)
        route = self._balancer.route(prompt_tokens, self._table.rows.get(identity.program_id), engines)
        call.call_id, n = identity.call_id, 1
        while (key := identity.key(call.call_id)) in self._table.calls:
            n += 1
            call.call_id = f"{identity.call_id}#{n}"
        call.key = key
        self._table.apply(
            CallArrived(
                now=call.arrived_s,
                call_id=key,
                program_id=identity.program_id,
                engine_id=route.engine_ids[0],
                thread_id=identity.thread_id,
                parents=None if identity.parents is None else tuple(map(identity.key, identity.parents)),
                prompt_tokens=prompt_tokens,
                pin=route.pin,
            )
        )
        return route.engine_ids

    async def _serve(self, call: _Call, engine_ids: tuple[str, ...], client: Downstream) -> None:
        try:
            async with AsyncExitStack() as stack:
                response = await self._send(call, engine_ids, stack)
                self._table.apply(CallStarted(now=time.monotonic(), call_id=call.key))
                await self._pass_on(call, response, client)
        except HTTPError as error:
            call.reason, call.account = str(error), Account(service_s=0.0)
            await client.respond(error.response())
        except EngineLost as lost:
            if call.reason is None:  # the last event had passed: nothing is missing
                await client.write(b"", last=True)
                return
            call.reason = str(lost)
            logger.warning("call %s: %s", call.call_id, call.reason)
            await client.fail(HTTPError(502, call.reason, "server_error"))

    async def _send(self, call: _Call, engine_ids: tuple[str, ...], stack: AsyncExitStack) -> httpx2.Response:
        """The start of the answer of the first engine in the ranking that can be reached."""
        for engine_id in engine_ids:
            if self._table.call(call.key).engine_id != engine_id:
                self._table.apply(CallMoved(now=time.monotonic(), call_id=call.key, engine_id=engine_id))
            with ExitStack() as attempt:
                attempt.enter_context(self._pool.states[engine_id].call())
                try:
                    response = await self._pool.client.send(self._upstream_request(call, engine_id), stream=True)
                except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                    self._pool.report_unreachable(engine_id, error)
                    continue
                except httpx2.HTTPError as error:
                    raise EngineLost(f"engine {engine_id} broke off before it answered ({type(error).__name__})") from error
                stack.enter_context(attempt.pop_all())
            stack.push_async_callback(_close_response, response)
            return response
        raise HTTPError.no_engine()

    def _upstream_request(self, call: _Call, engine_id: str) -> httpx2.Request:
        target = self._pool.states[engine_id].target
        row, active = self._table.row(call.identity.program_id), self._table.call(call.key)
        body = upstream_body(call.body, call.identity, row, active, plugin=target.plugin)
        # From the scope: Starlette's request.url begins with the Host header, so that a client could choose the path.
        query = call.request.scope["query_string"].decode("latin-1")
        return self._pool.client.build_request(
            "POST",
            target.url + call.request.scope["path"] + (query and f"?{query}"),
            headers=upstream_headers(call.request.headers.raw, call.identity, call.call_id),
            content=json.dumps(body),  # in ASCII: JSON can name half a surrogate pair, UTF-8 cannot
        )

    async def _pass_on(self, call: _Call, response: httpx2.Response, client: Downstream) -> None:
        """Relay status, headers and body, and keep what the engine says the call cost."""
        engine_id = self._table.call(call.key).engine_id
        headers = client_headers(response.headers.raw, call.identity, call.call_id, engine_id)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            data = b"".join([chunk async for chunk in _chunks(response)])
            if response.status_code < 400:
                call.account, call.reason = read_json(data), None
            else:
                call.account, call.reason = Account(service_s=0.0), f"the engine answered {response.status_code}"
            await client.start(response.status_code, [*headers, (b"content-length", str(len(data)).encode())])
            await client.write(data, last=True)
            return
        options = call.body.get("stream_options")
        stream = StreamAccount(keep_usage=isinstance(options, dict) and bool(options.get("include_usage")))
        await client.start(response.status_code, headers)
        async for chunk in _chunks(response):
            for event in stream.feed(chunk):
                # Clients hang up at the last event, before the engine closes its side.
                call.account = stream.account
                call.reason = None if stream.done else call.reason
                await client.write(event)
        call.account, call.reason = stream.account, None
        await client.write(stream.close(), last=True)

    def _close(self, call: _Call) -> None:
        """Account for the call, once. An engine that gives no figures is taken to have served it all the time."""
        now = time.monotonic()
        account = call.account
        service_s = now - call.arrived_s if account.service_s is None else account.service_s
        waiting_s = account.waiting_s or 0.0
        if call.reason is None:
            self._table.apply(
                CallFinished(
                    now=now,
                    call_id=call.key,
                    service_s=service_s,
                    waiting_s=waiting_s,
                    output_tokens=account.output_tokens,
                )
            )
        else:
            self._table.apply(
                CallAborted(now=now, call_id=call.key, reason=call.reason, service_s=service_s, waiting_s=waiting_s)
            )
        if call.identity.anonymous and call.identity.program_id in self._table.rows:
            self._table.apply(ProgramEnded(now=now, program_id=call.identity.program_id))


async def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx2.HTTPError as error:
        raise EngineLost(f"the engine broke off in the middle of its answer ({type(error).__name__})") from error


async def _close_response(response: httpx2.Response) -> None:
    """Close even while cancelled: closing the connection is what cancels the call in the engine."""
    with anyio.CancelScope(shield=True):
        await response.aclose()
