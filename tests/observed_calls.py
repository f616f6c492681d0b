"""Calls as the gateway's observers see them, without a gateway: a table and a clock in the test's own hands."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request

from agentix.core import ProcessTable
from agentix.core.events import CallAborted, CallArrived, CallFinished, ProgramEnded
from agentix.gateway.accounting import Account
from agentix.gateway.apis import Dialect
from agentix.gateway.cancel_scope import CancelScope
from agentix.gateway.exchange import Call
from agentix.gateway.identity import Identity, make_trail, read_prompt
from agentix.gateway.observer import Observer
from agentix.gateway.outcome import Outcome


class Calls:
    """A table with calls, and the observer that is told of them in the order in which the gateway does it."""

    def __init__(self, observer: Observer, table: ProcessTable | None = None) -> None:
        self.table = ProcessTable() if table is None else table
        self.observer = observer

    def arrive(
        self,
        program_id: str,
        call_id: str,
        now: float,
        *,
        path: str = "/v1/chat/completions",
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        engine_id: str = "e",
        tenant: str = "",
    ) -> Call:
        """A call comes."""
        body = {"model": "m", **(body or {})}
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        request = Request({"type": "http", "path": path, "headers": raw})
        identity = Identity(program_id=program_id, call_id=call_id)
        trail = make_trail(tenant, read_prompt(Dialect.CHAT, body))
        no_scope = cast("CancelScope", None)  # nobody cancels it, and a real one needs an event loop
        call = Call(request, body, identity, trail, arrived_s=now, tenant=tenant, scope=no_scope)
        call.call_id, call.key, call.engine_id = call_id, identity.key(call_id), engine_id
        self.table.apply(CallArrived(now=now, call_id=call.key, program_id=program_id, engine_id=engine_id))
        self.observer.arrived(call, now)
        return call

    def send(self, call: Call, engine_id: str, now: float) -> None:
        """It goes to the engine."""
        call.engine_id, call.sent_s = engine_id, now if call.sent_s is None else call.sent_s
        self.observer.sent(call, engine_id, now)

    def begin(self, call: Call, now: float) -> None:
        """Its answer begins."""
        call.first_token_s = now
        self.observer.first_token(call, now)

    def end(self, call: Call, now: float, outcome: Outcome = Outcome.FINISHED, **account: Any) -> None:
        """It is over; `account` is what the engine tells."""
        call.end(outcome, "" if outcome is Outcome.FINISHED else f"it was {outcome}", Account(**account))
        self.observer.over(call, now)
        event: CallFinished | CallAborted = CallAborted(now=now, call_id=call.key, reason=call.reason)
        if outcome is Outcome.FINISHED:
            event = CallFinished(now=now, call_id=call.key, service_s=account.get("service_s") or 0.0)
        self.table.apply(event)

    def end_program(self, program_id: str, now: float) -> None:
        """The program is over."""
        row = self.table.row(program_id)
        self.table.apply(ProgramEnded(now=now, program_id=program_id))
        self.observer.program_over(row)
