"""One call's way through the gateway: identify, route, send, relay, account."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from agentix.core.balancers import EngineView
from agentix.core.events import CallAborted, CallArrived, CallFinished, CallMoved, CallStarted
from agentix.gateway.accounting import Account, parse_json, read_account
from agentix.gateway.apis import Api, Dialect
from agentix.gateway.body import read_object
from agentix.gateway.dispatch import EngineLost, chunks, send
from agentix.gateway.downstream import Downstream
from agentix.gateway.errors import HTTPError
from agentix.gateway.events import EventStream
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.identity import TENANT, make_trail, read_answers, read_claim, read_prompt
from agentix.gateway.outcome import Outcome
from agentix.gateway.preambles import normalise
from agentix.gateway.prompt_length import tokens_by_rule
from agentix.gateway.upstream import (
    client_headers,
    engine_url,
    priority_for,
    upstream_body,
    upstream_headers,
)

logger = logging.getLogger(__name__)


class Relay:
    """ASGI endpoint for the calls of one API: the engine's answer, byte for byte, with the program's row kept true on the way.

    The client may go away at any moment, or somebody cancel the program: the call is then cancelled in the engine (its
    connection is closed) and recorded as aborted. An engine that cannot be reached is skipped for the next in the
    balancer's ranking; once an engine has taken the call, it stays with it.
    """

    def __init__(self, api: Api, exchange: Exchange) -> None:
        self._api = api
        self._x = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        request = Request(scope, receive)
        client = Downstream(self._api, scope, receive, send)
        try:
            body = await read_object(request, self._x.max_body_bytes)
            engines = await self._x.models.engines_for(body.get("model"), request.headers)
            call = self._identify(request, normalise(body) if self._x.normalise_preambles else body)
            engine_ids = self._arrive(call, engines)
        except HTTPError as error:
            self._x.metrics.rejected(error.status)
            await client.refuse(error)
            return
        except ClientDisconnect:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(client.cancel_when_gone, group.cancel_scope)
            try:
                with call.scope:
                    await self._serve(call, engine_ids, client)
                if call.scope.cancelled_caught:
                    call.end(Outcome.CANCELLED, "its program was cancelled")
                    await client.fail(HTTPError.cancelled(call.identity.program_id))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if group.cancel_scope.cancel_called or call.outcome is not Outcome.DISCONNECTED or task is None:
                    raise
                task.uncancel()  # the server stops; what is left is to say so
                call.end(Outcome.STOPPED, "the gateway stopped")
                await client.fail(HTTPError(503, "the gateway stops; try again", "overloaded_error", retry_after_s=5))
            except Exception:
                if call.outcome is Outcome.DISCONNECTED:
                    call.end(Outcome.FAILED, "a fault of the gateway")
                raise
            finally:
                self._close(call)
                group.cancel_scope.cancel()

    def _identify(self, request: Request, body: dict[str, Any]) -> Call:
        trail = make_trail(TENANT, read_prompt(self._api.dialect, body))
        identity = self._x.sessions.identify(read_claim(request.headers, body), trail)
        return Call(request, body, identity, trail, arrived_s=time.monotonic())

    def _arrive(self, call: Call, engines: list[EngineView]) -> tuple[str, ...]:
        """Enter the call into the table; returns the engines to try, best first.

        A call whose id is still active (a client's early retry) enters under a longer one.
        """
        identity, table = call.identity, self._x.table
        call.tokens_by_rule = tokens_by_rule(call.body)
        prompt_tokens = self._x.prompt_length.estimate(call.body.get("model"), call.tokens_by_rule)
        route = self._x.balancer.route(prompt_tokens, table.rows.get(identity.program_id), engines)
        home = self._x.sessions.engine_of(TENANT, call.body.get("previous_response_id"))
        engine_ids = tuple(sorted(route.engine_ids, key=lambda e: e != home))  # it alone has what the call goes on from
        call.call_id, n = identity.call_id, 1
        while (key := identity.key(call.call_id)) in table.calls:
            n += 1
            call.call_id = f"{identity.call_id}#{n}"
        call.key = key
        table.apply(
            CallArrived(
                now=call.arrived_s,
                call_id=key,
                program_id=identity.program_id,
                engine_id=engine_ids[0],
                thread_id=identity.thread_id,
                parents=None if identity.parents is None else tuple(map(identity.key, identity.parents)),
                prompt_tokens=prompt_tokens,
                pin=route.pin,
                attained=self._x.lifetimes.resume(identity.program_id, call.arrived_s),
            )
        )
        self._x.sessions.arrived(identity, call.call_id)
        self._x.metrics.arrived(table.row(identity.program_id).program_class)
        self._x.scopes[key] = call.scope
        return engine_ids

    async def _serve(self, call: Call, engine_ids: tuple[str, ...], client: Downstream) -> None:
        try:
            async with AsyncExitStack() as stack:
                response = await send(self._x.pool, engine_ids, lambda engine_id: self._make_request(call, engine_id), stack)
                self._x.table.apply(CallStarted(now=time.monotonic(), call_id=call.key))
                await self._pass_on(call, response, client)
        except HTTPError as error:
            self._settle(call, Outcome.REJECTED, str(error), Account(service_s=0.0))
            self._x.metrics.rejected(error.status)
            await client.refuse(error)
        except EngineLost as lost:
            if call.outcome is Outcome.FINISHED:  # the last event had passed: nothing is missing
                await client.write(b"", last=True)
                return
            self._settle(call, Outcome.LOST, str(lost), call.account)
            logger.warning("call %s: %s", call.call_id, call.reason)
            await client.fail(HTTPError(502, call.reason, "server_error"))

    def _make_request(self, call: Call, engine_id: str) -> httpx2.Request:
        """The call as this engine is to get it; the call is there from now on."""
        if self._x.table.call(call.key).engine_id != engine_id:
            self._x.table.apply(CallMoved(now=time.monotonic(), call_id=call.key, engine_id=engine_id))
        target = self._x.pool.states[engine_id].target
        row, active = self._x.table.row(call.identity.program_id), self._x.table.call(call.key)
        priority = priority_for(call.body, plugin=target.plugin)
        body = upstream_body(self._api, call.body, call.identity, row, active, plugin=target.plugin)
        try:
            content = json.dumps(body)  # in ASCII: JSON can name half a surrogate pair, UTF-8 cannot
        except RecursionError:
            raise HTTPError(400, "the request body is nested too deeply") from None
        return self._x.pool.client.build_request(
            "POST",
            engine_url(target, call.request.scope),
            headers=upstream_headers(call.request.headers.raw, call.identity, call.call_id, priority),
            content=content,
        )

    async def _pass_on(self, call: Call, response: httpx2.Response, client: Downstream) -> None:
        """Relay status, headers and body, and keep what the engine says the call cost and what it answered.

        The books are closed before the client has the end of the answer: its next call may follow at once.
        """
        headers = client_headers(response.headers.raw, call.identity, call.call_id, self._engine_id(call))
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            data = b"".join([chunk async for chunk in chunks(response)])
            if response.status_code < 400:
                answer = parse_json(data)
                self._settle(call, Outcome.FINISHED, "", read_account(answer))
                self._note(call, answer)
            else:
                self._settle(call, Outcome.REFUSED, f"the engine answered {response.status_code}", Account(service_s=0.0))
            self._close(call)
            await client.start(response.status_code, [*headers, (b"content-length", str(len(data)).encode())])
            await client.write(data, last=True)
            return
        options = call.body.get("stream_options")
        stream = EventStream(self._api, keep_usage=isinstance(options, dict) and bool(options.get("include_usage")))
        await client.start(response.status_code, headers)
        try:
            async for chunk in chunks(response):
                for event in stream.feed(chunk):
                    # Clients hang up at the last event, before the engine closes its side.
                    call.account = stream.account
                    if stream.begun and call.first_token_s is None:
                        call.first_token_s = time.monotonic()
                    if stream.done:
                        self._settle(call, Outcome.FINISHED, "", stream.account)
                        self._note(call, stream.answer())
                        self._close(call)
                    await client.write(event)
            self._settle(call, Outcome.FINISHED, "", stream.account)
        finally:
            self._note(call, stream.answer())
        self._close(call)
        await client.write(stream.close(), last=True)

    def _settle(self, call: Call, outcome: Outcome, reason: str, account: Account) -> None:
        """The engine has done with the call: nobody can cancel it any more, what is left is to tell the client."""
        call.end(outcome, reason, account)
        self._x.scopes.pop(call.key, None)

    def _note(self, call: Call, answer: Any) -> None:
        """Remember what was answered, once, so that the next call is known to go on from it."""
        if call.noted:
            return
        call.noted = True
        stored = isinstance(answer, dict) and self._api.dialect is Dialect.RESPONSES
        response_id = answer.get("id") if stored else None
        self._x.sessions.answered(
            call.identity,
            call.call_id,
            call.trail,
            read_answers(self._api.dialect, answer),
            engine_id=self._engine_id(call),
            response_id=response_id if isinstance(response_id, str) else None,
        )

    def _engine_id(self, call: Call) -> str:
        return self._x.table.call(call.key).engine_id

    def _close(self, call: Call) -> None:
        """Account for the call, once. An engine that gives no figures is taken to have served it all the time."""
        if call.closed:
            return
        call.closed = True
        now, account, identity = time.monotonic(), call.account, call.identity
        service_s = now - call.arrived_s if account.service_s is None else account.service_s
        waiting_s = account.waiting_s or 0.0
        self._x.scopes.pop(call.key, None)
        self._x.prompt_length.learn(call.body.get("model"), call.tokens_by_rule, account.prompt_tokens)
        self._x.metrics.call_over(
            identity.program_id,
            self._engine_id(call),
            call.outcome,
            latency_s=now - call.arrived_s,
            ttft_s=None if call.first_token_s is None else call.first_token_s - call.arrived_s,
            output_tokens=0 if self._api.dialect is Dialect.EMBEDDINGS else account.output_tokens,
        )
        event: CallFinished | CallAborted = CallAborted(
            now=now, call_id=call.key, reason=call.reason, service_s=service_s, waiting_s=waiting_s
        )
        finished = call.outcome is Outcome.FINISHED
        if finished:
            event = CallFinished(
                now=now,
                call_id=call.key,
                service_s=service_s,
                waiting_s=waiting_s,
                output_tokens=account.output_tokens,
            )
        self._x.table.apply(event)
        if identity.final and finished:
            self._x.lifetimes.end(identity.program_id, now)
            self._x.sessions.ended(identity.program_id)
        else:
            self._x.lifetimes.rest(identity.program_id, now, anonymous=identity.anonymous)
