"""An engine's answer on its way to the client, byte for byte, and what is learnt from it as it passes."""

from __future__ import annotations

import asyncio
import time

from agentix.gateway.accounting import Account, parse_json, read_account
from agentix.gateway.apis import Api
from agentix.gateway.books import Books
from agentix.gateway.dispatch import Answer, chunks
from agentix.gateway.downstream import Downstream
from agentix.gateway.events import EventStream, is_engines_fault
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.outcome import Outcome
from agentix.gateway.upstream import client_headers
from agentix.gateway.waiting import queue_headers


class Answers:
    """Passes on the answers of one API.

    The books of a call are closed before its client's next call is looked at, which may follow at once.
    """

    def __init__(self, api: Api, exchange: Exchange, books: Books) -> None:
        self._api = api
        self._x = exchange
        self._books = books

    async def pass_on(self, call: Call, answer: Answer, client: Downstream) -> None:
        """Relay status, headers and body, and keep what the engine says the call cost and what it answered."""
        engine_id = self._x.admission.places[call.key].engine_id
        headers = client_headers(answer.raw_headers, call.identity, call.call_id, engine_id) + queue_headers(self._x, call)
        if answer.rest is None:
            await self._pass_on_whole(call, answer, client, headers)
            return
        options = call.body.get("stream_options")
        stream = EventStream(self._api, keep_usage=isinstance(options, dict) and bool(options.get("include_usage")))
        await client.start(answer.status_code, headers)
        try:
            async for chunk in chunks(answer):
                events = []
                for event in stream.feed(chunk):
                    # Clients hang up at the last event, before the engine closes its side.
                    call.account = stream.account
                    call.num_events += 1
                    if stream.begun and call.first_token_s is None:
                        call.first_token_s = time.monotonic()
                        self._x.observer.first_token(call, call.first_token_s)
                    if (stream.done or stream.error) and not call.closed:
                        self._settle_stream(call, answer, stream)
                        self._books.note(call, stream.answer())
                        self._books.close(call)
                    events.append(event)
                await client.write(b"".join(events))  # what came in one piece goes on in one
            self._settle_stream(call, answer, stream)
        finally:
            if not call.noted:
                self._books.note(call, stream.answer())
        self._books.close(call)
        await client.write(stream.close(), last=True)

    async def _pass_on_whole(self, call: Call, answer: Answer, client: Downstream, headers: list[tuple[bytes, bytes]]) -> None:
        """The same for an answer that is no stream. Its client does not wait for the books, a third of all that is left to do.

        Bytes leave between two rounds of the event loop. Whatever comes in then stands behind the books in the next round.
        """
        answer.visit.succeeded()
        self._books.settle(call, Outcome.FINISHED, "", call.account)
        asyncio.get_running_loop().call_soon(self._account, call, answer)  # however slowly the client reads
        try:
            await client.finish(answer.status_code, headers, answer.first)
            await asyncio.sleep(0)
        finally:
            self._account(call, answer)

    def _account(self, call: Call, answer: Answer) -> None:
        """Settle, note and close the books of a call whose answer is there as a whole, once."""
        if call.closed:
            return
        if answer.status_code < 400:
            said = parse_json(answer.first)
            self._books.settle(call, Outcome.FINISHED, "", read_account(said))
            self._books.note(call, said)
        else:
            self._note_refusal(call, answer.status_code)
        self._books.close(call)

    def _settle_stream(self, call: Call, answer: Answer, stream: EventStream) -> None:
        """A stream has come to its end, or has told of an error: then it has failed, whatever its status line says."""
        if call.closed:
            return
        if answer.status_code >= 400:
            self._note_refusal(call, answer.status_code)
        elif stream.error:
            account = stream.account if stream.begun else Account(service_s=0.0)
            self._books.settle(call, Outcome.REFUSED, "the engine ended its answer with an error", account)
            if is_engines_fault(stream.error):
                answer.visit.failed()
        else:
            self._books.settle(call, Outcome.FINISHED, "", stream.account)

    def _note_refusal(self, call: Call, status: int) -> None:
        """The engine has answered with an error of its own, which is the client's to read."""
        self._books.settle(call, Outcome.REFUSED, f"the engine answered {status}", Account(service_s=0.0))
        if status in {429, 503}:
            self._x.admission.refused(call.key, time.monotonic())
