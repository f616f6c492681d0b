"""A call's books: how it came out, what it said and what it cost, each told once to whoever keeps it."""

from __future__ import annotations

import time
from typing import Any

from agentix.core.events import CallAborted, CallFinished
from agentix.gateway.accounting import Account
from agentix.gateway.apis import Api, Dialect
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.identity import read_answers
from agentix.gateway.metered import tokens_used
from agentix.gateway.outcome import Outcome


class Books:
    """Settles, notes and closes the calls of one API.

    A call is settled when it is certain how it came out, noted when its answer is known, and closed when it is accounted for:
    the last two happen once, however often they are asked for, and nothing changes after the last: from then on another call
    may have the same id.
    """

    def __init__(self, api: Api, exchange: Exchange) -> None:
        self._api = api
        self._x = exchange

    def settle(self, call: Call, outcome: Outcome, reason: str, account: Account) -> None:
        """The engine has done with the call: nobody can cancel it any more, what is left is to tell the client."""
        if call.closed:
            return
        call.end(outcome, reason, account)
        self._x.scopes.pop(call.key, None)

    def note(self, call: Call, answer: Any) -> None:
        """Remember what was answered, so that the next call is known to go on from it."""
        if call.noted or call.closed:
            return
        call.noted = True
        stored = isinstance(answer, dict) and self._api.dialect is Dialect.RESPONSES
        response_id = answer.get("id") if stored else None
        answers = read_answers(self._api.dialect, answer)
        self._x.observer.answered(call, answers)
        self._x.sessions.answered(
            call.identity,
            call.call_id,
            call.trail,
            answers,
            engine_id=self._x.table.call(call.key).engine_id,
            response_id=response_id if isinstance(response_id, str) else None,
        )

    def close(self, call: Call) -> None:
        """Account for the call.

        The time for which the gateway held it is waiting. An engine that gives no figures is taken to have served it for all
        the rest; one that never got it has not served it at all.
        """
        if call.closed:
            return
        call.closed = True
        now, account, identity = time.monotonic(), call.account, call.identity
        held_s, in_engine_s = self._x.admission.times(call.key, now)
        service_s = in_engine_s if account.service_s is None else account.service_s
        waiting_s = held_s + (account.waiting_s or 0.0)
        self._x.scopes.pop(call.key, None)
        self._x.prompt_length.learn(call.body.get("model"), call.tokens_by_rule, account.prompt_tokens, tenant=call.tenant)
        place = self._x.admission.places[call.key]
        call.engine_id, call.sent_s, call.level = place.engine_id, place.sent_s, place.level
        self._x.observer.over(call, now)
        finished = call.outcome is Outcome.FINISHED
        event: CallFinished | CallAborted
        if finished:
            event = CallFinished(
                now=now,
                call_id=call.key,
                service_s=service_s,
                waiting_s=waiting_s,
                output_tokens=account.output_tokens,
            )
        else:
            event = CallAborted(now=now, call_id=call.key, reason=call.reason, service_s=service_s, waiting_s=waiting_s)
        was_sent = place.sent_s is not None
        self._x.admission.over(event, num_tokens=tokens_used(call, place.tokens, in_engine_s if was_sent else None))
        if identity.final and finished:
            self._x.lifetimes.end(identity.program_id, now)
            self._x.sessions.ended(identity.program_id)
        else:
            self._x.lifetimes.rest(identity.program_id, now, anonymous=identity.anonymous)
