"""A call's wait for its turn, as its client sees it: bounded, and with signs of life in a stream."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from agentix.gateway.downstream import Downstream
from agentix.gateway.errors import HTTPError
from agentix.gateway.exchange import Call, Exchange
from agentix.gateway.standing import reason_held, why_held
from agentix.wire import CALL_HEADER, ENGINE_HEADER, LEVEL_HEADER, PROGRAM_HEADER, QUEUE_MS_HEADER


async def wait_for_turn(exchange: Exchange, call: Call, client: Downstream) -> None:
    """Return once the call has been sent. Raises HTTPError 503 when it has been held for as long as calls are.

    A client that streams gets a comment after `heartbeat_s`, and every so often from then on: proxies and clients give up
    connections on which nothing happens. The status line is 200 with the first one, so that errors after that are events;
    before it, they have their own status.
    """
    admission, settings = exchange.admission, exchange.admission.settings
    place = admission.places[call.key]
    deadline_s, reason = call.arrived_s + settings.max_hold_s, ""
    while place.sent_s is None and place.turn is not None:
        now, queue = time.monotonic(), admission.turns.queue(place.engine_id)
        if now >= deadline_s:
            raise HTTPError.held_too_long(now - call.arrived_s, why_held(queue, place), admission.retry_after_s(place))
        if (why := reason_held(queue, place)) != reason:
            reason = why
            exchange.observer.held(call, reason, now)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(settings.heartbeat_s, deadline_s - now)):
                await place.turn.wait()
        if place.sent_s is None and call.body.get("stream") is True and time.monotonic() < deadline_s:
            position = admission.turns.queue(place.engine_id).position(place)
            where = f"position={position} engine={place.engine_id}" if position else f"waits: {place.asleep}"
            await client.comment(f"agentix queue {where}", _who(exchange, call))


def queue_headers(exchange: Exchange, call: Call) -> list[tuple[bytes, bytes]]:
    """Headers that tell for how long the call was held, and at which level it was sent."""
    held_s, _ = exchange.admission.times(call.key, time.monotonic())
    level = exchange.admission.places[call.key].level
    return [(QUEUE_MS_HEADER.encode(), str(round(held_s * 1000)).encode()), (LEVEL_HEADER.encode(), str(level).encode())]


def _who(exchange: Exchange, call: Call) -> list[tuple[bytes, bytes]]:
    ours = {
        PROGRAM_HEADER: call.identity.shown_id,
        CALL_HEADER: call.call_id,
        ENGINE_HEADER: exchange.admission.places[call.key].engine_id,
    }
    return [(name.encode(), value.encode()) for name, value in ours.items()]
