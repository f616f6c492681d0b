"""One call's way through the gateway: identify, route, send, relay, account."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from agentix.core.balancers import EngineView
from agentix.core.events import CallArrived
from agentix.core.program import ProgramRow
from agentix.gateway.accounting import Account
from agentix.gateway.answers import Answers
from agentix.gateway.apis import Api, Dialect
from agentix.gateway.body import parse_object, read_bytes
from agentix.gateway.books import Books
from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.dispatch import Answer, EngineBusy, EngineLost, send
from agentix.gateway.downstream import Downstream
from agentix.gateway.engine_transport import EngineAnswer
from agentix.gateway.errors import HTTPError, NoEngine
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.fit import Needs, read_needs, those_that_fit
from agentix.gateway.identity import make_trail, named_class, read_claim, read_prompt, work_out_class
from agentix.gateway.isolation import isolate, isolate_headers
from agentix.gateway.metered import check_metered, num_answers
from agentix.gateway.outcome import Outcome
from agentix.gateway.preambles import normalise
from agentix.gateway.prompt_length import tokens_by_rule
from agentix.gateway.tenants import tenant_of
from agentix.gateway.upstream import (
    engine_url,
    priority_for,
    upstream_body,
    upstream_headers,
)
from agentix.gateway.vendor_fields import wished_priority, without_vendor_fields
from agentix.gateway.waiting import wait_for_turn
from agentix.wire import PRIORITY_HEADER

logger = logging.getLogger(__name__)

_encode = json.JSONEncoder(allow_nan=False).encode  # in ASCII: JSON can name half a surrogate pair, UTF-8 cannot


class Relay:
    """ASGI endpoint for the calls of one API: the engine's answer, byte for byte, with the program's row kept true on the way.

    The client may go away at any moment, or somebody cancel the program: the call is then cancelled in the engine (its
    connection is closed) and recorded as aborted. When the call is sent is the admission's to say.
    """

    def __init__(self, api: Api, exchange: Exchange) -> None:
        self._api = api
        self._x = exchange
        self._books = Books(api, exchange)
        self._answers = Answers(api, exchange, self._books)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        request = Request(scope, receive)
        client = Downstream(self._api, scope, receive, send)
        try:
            body, num_bytes = await self._read(request)
            engines = await self._x.models.engines_for(body.get("model"), request.headers)
            call = self._identify(request, normalise(body) if self._x.normalise_preambles else body)
            call.num_bytes = num_bytes
            self._arrive(call, engines)
        except HTTPError as error:
            self._x.metrics.rejected(error.status, error.code, tenant_of(request))
            await client.refuse(error)
            return
        except ClientDisconnect:
            return
        with CancelScope() as gone:
            watching = asyncio.create_task(client.cancel_when_gone(gone))
            try:
                with call.scope:
                    await self._serve(call, client)
                if call.scope.cancelled_caught:
                    call.end(Outcome.CANCELLED, "its program was cancelled")
                    await self._fail(call, client, HTTPError.cancelled(call.identity.shown_id))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if gone.cancel_called or call.outcome is not Outcome.DISCONNECTED or task is None:
                    raise
                task.uncancel()  # the server stops; what is left is to say so
                call.end(Outcome.STOPPED, "the gateway stopped")
                stops = HTTPError(503, "the gateway stops; try again", "overloaded_error", retry_after_s=5)
                await self._fail(call, client, stops)
            except Exception:
                if call.outcome is Outcome.DISCONNECTED:
                    call.end(Outcome.FAILED, "a fault of the gateway")
                raise
            finally:
                self._books.close(call)
                watching.cancel()

    async def _read(self, request: Request) -> tuple[dict[str, Any], int]:
        """The body, and how many bytes it had: they are not kept."""
        data = await read_bytes(request, self._x.max_body_bytes)
        return parse_object(data), len(data)

    def _identify(self, request: Request, body: dict[str, Any]) -> Call:
        tenant = tenant_of(request)
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in reversed(request.headers.raw)}  # the first holds
        trail = make_trail(tenant, read_prompt(self._api.dialect, body))
        identity = self._x.sessions.identify(read_claim(headers, body), trail)
        call = Call(request, body, identity, trail, arrived_s=time.monotonic(), tenant=tenant)
        call.wished_priority = wished_priority(headers, body)
        return call

    def _arrive(self, call: Call, engines: list[EngineView]) -> None:
        """Route the call and enter it into the table; it may be sent already after this. Raises HTTPError for what is refused.

        A call whose id is still active (a client's early retry) enters under a longer one.
        """
        identity, table, model = call.identity, self._x.table, call.body.get("model")
        call.tokens_by_rule = tokens_by_rule(call.body)
        prompt_tokens = self._x.prompt_length.estimate(model, call.tokens_by_rule, tenant=call.tenant)
        needs = self._needs(call, prompt_tokens)
        engines = self._x.weighing.views(those_that_fit(self._x.pool.states, engines, needs))
        row = table.rows.get(identity.program_id) or ProgramRow(program_id=identity.program_id, started_s=call.arrived_s)
        if self._x.budgets.is_limited(call.tenant):
            check_metered(call.body)
        answers = num_answers(call.body)
        levels = self._x.budgets.check(call.tenant, identity.program_id, call.arrived_s, num_calls=answers)
        route = self._x.balancer.route(prompt_tokens, row, engines)
        call.call_id, n = identity.call_id, 1
        while (key := identity.key(call.call_id)) in table.calls:
            n += 1
            call.call_id = f"{identity.call_id}#{n}"
        call.key = key
        engine_id = route.engine_ids[0]
        self._x.admission.check_room(engine_id, program_id=identity.program_id, tenant=call.tenant, num_bytes=call.num_bytes)
        if needs.engine_id is None:
            self._x.weighing.routed(row, route, engines, call.arrived_s, prompt_tokens=prompt_tokens)
        attained = self._x.lifetimes.resume(identity.program_id, call.arrived_s)
        program_class = named_class(call.body)
        if program_class is None and not (row.program_class or (attained and attained.program_class)):
            program_class = work_out_class(call.tenant, call.body, call.trail.prompt.preamble)
        arrived = CallArrived(
            now=call.arrived_s,
            call_id=key,
            program_id=identity.program_id,
            engine_id=engine_id,
            thread_id=identity.thread_id,
            parents=None if identity.parents is None else tuple(map(identity.key, identity.parents)),
            prompt_tokens=prompt_tokens,
            pin=route.pin,
            route=route.reason,
            priority=(self._wished(call) + levels) or None,
            attained=attained,
            program_class=program_class,
        )
        self._x.admission.arrive(
            arrived,
            tenant=call.tenant,
            needs=needs,
            engine_ids=route.engine_ids,
            num_bytes=call.num_bytes,
            num_answers=answers,
            why=route.reason if needs.engine_id is None else "has the response that the call goes on from",
        )
        self._x.sessions.arrived(identity, call.call_id)
        self._x.observer.arrived(call, call.arrived_s)
        self._x.scopes[key] = call.scope

    def _needs(self, call: Call, prompt_tokens: int) -> Needs:
        """What the call needs of an engine: what it goes on from is in one alone. Raises HTTPError 400 if it is in none.

        If that engine no longer has the model, any may say so.
        """
        previous = call.body.get("previous_response_id")
        home = self._x.sessions.engine_of(call.tenant, previous)
        if call.tenant and previous is not None and home is None:  # an engine would go on from another tenant's as well
            name = "previous_response_id"
            raise HTTPError(400, f"{name}: no such response is known here", param=name, code="previous_response_not_found")
        needs = read_needs(call.body, prompt_tokens, engine_id=home)
        if home is None:
            return needs
        state = self._x.pool.states.get(home)
        return needs if state is not None and state.serves(needs.model) else replace(needs, engine_id=None)

    async def _serve(self, call: Call, client: Downstream) -> None:
        try:
            with await self._reach(call, client) as answer:
                self._x.admission.places[call.key].answering = True
                await self._answers.pass_on(call, answer, client)
        except HTTPError as error:
            self._books.settle(call, Outcome.REJECTED, str(error), Account(service_s=0.0))
            self._x.metrics.rejected(error.status, error.code, call.tenant)
            await self._fail(call, client, error)
        except EngineLost as lost:
            if call.closed:  # the last event had passed: nothing is missing
                await client.write(b"", last=True)
                return
            self._books.settle(call, Outcome.LOST, str(lost), call.account)
            logger.warning("call %s: %s", call.call_id, call.reason)
            await self._fail(call, client, HTTPError(502, call.reason, "server_error"))

    async def _fail(self, call: Call, client: Downstream, error: HTTPError) -> None:
        """Tell the client; the books are closed before, because its next call may follow at once."""
        self._books.close(call)
        await client.fail(error)

    async def _reach(self, call: Call, client: Downstream) -> Answer:
        """Wait for the call's turn, and send it; again, if no engine has taken it but one still may."""
        while True:
            await wait_for_turn(self._x, call, client)
            try:
                return await send(
                    self._x.pool,
                    self._x.admission.engines_to_try(call.key),
                    lambda engine_id: self._open(call, engine_id),
                    program_id=call.identity.program_id,
                    repeatable=not self._is_stored(call),
                )
            except EngineBusy as busy:
                self._x.admission.put_back(call.key, time.monotonic(), retry_after_s=busy.retry_after_s or 0.0)
            except NoEngine:
                if not self._x.admission.may_wait(call.key):
                    raise
                self._x.admission.put_back(call.key, time.monotonic())

    def _is_stored(self, call: Call) -> bool:
        """Whether engines keep the answer, so that computing it twice would leave two."""
        return self._api.dialect is Dialect.RESPONSES and (call.body.get("store", True) or bool(call.body.get("background")))

    def _wished(self, call: Call) -> int:
        """The levels by which the client wants its call later; earlier, at others' expense, only where there are no tenants."""
        return max(0, call.wished_priority) if call.tenant else call.wished_priority

    def _open(self, call: Call, engine_id: str) -> Awaitable[EngineAnswer]:
        """The call as this engine is to get it; the call is there from now on."""
        now = time.monotonic()
        self._x.admission.goes_to(call.key, engine_id, now)
        self._x.observer.sent(call, engine_id, now)
        target = self._x.pool.states[engine_id].target
        row, active = self._x.table.row(call.identity.program_id), self._x.table.call(call.key)
        priority = priority_for(call.body, plugin=target.plugin)
        body = upstream_body(self._api, call.body, call.identity, row, active, plugin=target.plugin)
        if target.hosted is not None:
            body = without_vendor_fields(body)
        else:
            body = isolate(body, call.tenant, self._x.tenants, plugin=target.plugin)
        try:
            content = _encode(body)
        except RecursionError:
            raise HTTPError(400, "the request body is nested too deeply") from None
        except ValueError:
            raise HTTPError(400, "a number in the request body is not finite, or too large for a double") from None
        own = isolate_headers(call.request.headers.raw, call.tenant, plugin=target.plugin)
        headers = upstream_headers(own, target, call.identity, call.call_id, priority)
        level = self._x.admission.priority(call.key)
        if target.plugin and active.priority != call.wished_priority:
            level = active.priority  # not as early as the client wants it
        if level is not None:  # the client's own is in it
            name = PRIORITY_HEADER.encode()
            headers = [*(h for h in headers if h[0].lower() != name), (name, str(level).encode())]
        url = engine_url(target, call.request.scope)
        return self._x.transport.open("POST", url, headers, content.encode())
