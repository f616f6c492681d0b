"""Who was served when: read off the decision log while it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentix.core.events import (
    Batch,
    CallAborted,
    CallArrived,
    CallFinished,
    CallMoved,
    Event,
    Placed,
    StepCompleted,
)
from agentix.metrics import BatchSpan

_ROUNDING_S = 1e-9  # two spans no further apart than this are one: their bounds are sums of the same durations


@dataclass(slots=True, kw_only=True)
class CallSpans:
    """A call from its arrival to its end; `served` are the spans (begin, end) in which it was in a step, in order.

    `engine_id` is the engine it was on last. `ended_s` is None as long as it is active.
    """

    call_id: str
    program_id: str
    engine_id: str
    arrived_s: float
    ended_s: float | None = None
    served: list[tuple[float, float]] = field(default_factory=list)

    def waits(self) -> list[tuple[float, float]]:
        """The spans between arrival and end in which it was in no step."""
        waits: list[tuple[float, float]] = []
        since_s = self.arrived_s
        for begin_s, end_s in self.served:
            if begin_s - since_s > _ROUNDING_S:
                waits.append((since_s, begin_s))
            since_s = end_s
        if self.ended_s is not None and self.ended_s - since_s > _ROUNDING_S:
            waits.append((since_s, self.ended_s))
        return waits


class Timeline:
    """Calls and batches of a run. Hand `record` to a simulation as its `on_decision`.

    Neighbouring steps are merged, so it grows with preemptions and changes of a batch's size, not with steps.
    """

    def __init__(self) -> None:
        self.calls: dict[str, CallSpans] = {}  # by call id, in order of arrival
        self.batches: dict[str, list[BatchSpan]] = {}  # by engine id

    @property
    def end_s(self) -> float:
        """When the last step ended; 0 if there was none."""
        return max((spans[-1].end_s for spans in self.batches.values()), default=0.0)

    def record(self, event: Event, decisions: Sequence[Placed] | Sequence[Batch]) -> None:
        """Take in one line of the log. A line that gives a batch repeats the event before it and tells nothing new."""
        if decisions and isinstance(decisions[0], Batch):
            return
        match event:
            case CallArrived():
                self.calls[event.call_id] = CallSpans(
                    call_id=event.call_id, program_id=event.program_id, engine_id=event.engine_id, arrived_s=event.now
                )
            case CallMoved():
                self.calls[event.call_id].engine_id = event.engine_id
            case StepCompleted() if event.call_ids and event.duration_s > 0:
                self._step(event)
            case CallFinished() | CallAborted():
                self.calls[event.call_id].ended_s = event.now

    def _step(self, event: StepCompleted) -> None:
        begin_s = event.now - event.duration_s
        for call_id in event.call_ids:
            served = self.calls[call_id].served
            if served and begin_s - served[-1][1] <= _ROUNDING_S:
                served[-1] = (served[-1][0], event.now)
            else:
                served.append((begin_s, event.now))
        engine_id, size = self.calls[event.call_ids[0]].engine_id, len(event.call_ids)
        spans = self.batches.setdefault(engine_id, [])
        if spans and begin_s - spans[-1].end_s <= _ROUNDING_S:
            begin_s = spans[-1].end_s
            if spans[-1].num_calls == size:
                begin_s = spans.pop().begin_s
        spans.append(BatchSpan(begin_s, event.now, size))


def lanes(calls: Iterable[CallSpans]) -> list[list[CallSpans]]:
    """The calls, given in order of arrival, in as few rows as possible without an overlap in a row."""
    rows: list[list[CallSpans]] = []
    for call in calls:
        for row in rows:
            last_s = row[-1].ended_s
            if last_s is not None and last_s <= call.arrived_s:
                row.append(call)
                break
        else:
            rows.append([call])
    return rows
