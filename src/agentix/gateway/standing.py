"""Where calls stand, and why they are still there: in words, for people and for the wire."""

from __future__ import annotations

import math
from typing import Any

from agentix.gateway.engine_queue import EngineQueue
from agentix.gateway.place import Place


def describe_place(queue: EngineQueue, place: Place) -> dict[str, Any]:
    """Where a call stands in the queue of its engine (docs/wire.md)."""
    state = "held" if place.sent_s is None else "answering" if place.answering else "sent"
    return {
        "state": state,
        "answering": place.answering,
        "level": queue.level(place),
        "position": queue.position(place),
        "waits_for": why_held(queue, place) if state == "held" else f"in {place.engine_id}",
        "routed_because": place.why,
    }


def why_held(queue: EngineQueue, place: Place) -> str:
    """What a call that is held waits for."""
    if place.asleep:
        return place.asleep
    where = f"held: level {queue.level(place)}, position {queue.position(place)} of {place.engine_id}"
    return f"{where}; {queue.blocked}" if queue.blocked else where


def reason_held(queue: EngineQueue, place: Place) -> str:
    """The same without its level and position, which change all the time."""
    return place.asleep or queue.blocked or "others go first"


def describe_queue(queue: EngineQueue) -> dict[str, Any]:
    """How calls to an engine are held."""
    limit = None if math.isinf(queue.limit.limit) else math.floor(queue.limit.limit)
    return {"tier": int(queue.tier), "limit": limit, "num_held": queue.num_held}


def retry_after_s(queue: EngineQueue, num_before: int) -> int:
    """When a client may try again whose call was not served: when those before it are likely to be gone."""
    return max(1, min(3600, math.ceil(num_before * (queue.release_interval_s or 1.0))))
