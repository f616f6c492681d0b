"""What the engines have to do: read off the gateway that sends them their calls."""

from __future__ import annotations

from collections.abc import Collection

from agentix.cluster.ray_scaling import Load
from agentix.gateway.admission import Admission
from agentix.gateway.engines import EnginePool


def read_load(
    pool: EnginePool, admission: Admission, engine_ids: Collection[str], *, num_engines: int, num_starting: int, now: float
) -> Load:
    """The load of these engines; `now` on the monotonic clock.

    A call that is held because its program is paused or over budget waits for no engine. What waits in an engine is what it
    told last, with the calls that have come and gone since (`Gauge`); one that tells nothing is taken to run what it has.
    O(calls).
    """
    places = [p for p in admission.places.values() if p.engine_id in engine_ids]
    held = [p for p in places if p.sent_s is None and not p.asleep]
    num_sent = sum(p.sent_s is not None for p in places)
    num_queued = min(num_sent, sum(_num_queued(pool, admission, engine_id) for engine_id in engine_ids))
    return Load(
        num_engines=num_engines,
        num_starting=num_starting,
        num_waiting=len(held) + num_queued,
        waiting_s=sum(now - p.arrived_s for p in held),
        num_running=num_sent - num_queued,
    )


def _num_queued(pool: EnginePool, admission: Admission, engine_id: str) -> int:
    state, queue = pool.states.get(engine_id), admission.turns.queues.get(engine_id)
    return 0 if state is None or queue is None else state.gauge.num_waiting(queue.num_running) or 0
