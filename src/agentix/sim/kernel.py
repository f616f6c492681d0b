"""The clock of the simulation: events are data, played in a total order."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from enum import IntEnum
from typing import Generic, TypeVar

from agentix.core.errors import AgentixError

E = TypeVar("E")


class Phase(IntEnum):
    """What comes first at one moment.

    A batch that ends frees its slots before calls arrive, both before an operator's action (an engine joins or
    fails), and everything before an engine fills its next batch: no engine decides on half of a moment's news.
    """

    COMPLETE = 0
    ARRIVE = 1
    CONTROL = 2
    SCHEDULE = 3


class TimeError(AgentixError):
    """An event for a moment that is past, or is no moment at all."""


class Kernel(Generic[E]):
    """Plays events in the order (time, phase, sequence), sequence being the order in which they were scheduled.

    `now` is the time of the event being played, in seconds; it never goes back. Scheduling and playing one event cost
    O(log n) in the events that are pending. Two runs that schedule the same events play the same order.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, Phase, int, E]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, event: E, *, at_s: float, phase: Phase) -> None:
        """Have `event` played at `at_s`. Raises TimeError for the past, for infinity and for NaN."""
        if not self.now <= at_s < math.inf:
            raise TimeError(f"cannot schedule {event!r} at {at_s} s: it is {self.now} s")
        self._sequence += 1
        heapq.heappush(self._heap, (at_s, phase, self._sequence, event))

    def run(self, handle: Callable[[E], None], *, until_s: float = math.inf) -> None:
        """Play every event up to and including `until_s`, those that `handle` schedules on the way too."""
        while self._heap and self._heap[0][0] <= until_s:
            self.now, _, _, event = heapq.heappop(self._heap)
            handle(event)
