"""Calls to be looked at again at a certain moment: how a scheduler finds those that begin to starve."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentix.core.errors import InvalidTransition

# What is noted no longer is swept out once it outnumbers the rest by this many.
_SLACK = 64


@dataclass(slots=True)
class Watch:
    """A moment (in seconds) per call, the earliest first. Noting and taking cost O(log n)."""

    _moments: dict[str, float] = field(default_factory=dict)
    _heap: list[tuple[float, str]] = field(default_factory=list)  # every moment, and some that no longer hold

    @property
    def next_s(self) -> float:
        """No call is due before this moment; math.inf if none is noted."""
        return self._heap[0][0] if self._heap else math.inf

    def note(self, call_id: str, at_s: float) -> None:
        """Have the call looked at no later than `at_s`."""
        if at_s < self._moments.get(call_id, math.inf):
            self._moments[call_id] = at_s
            heapq.heappush(self._heap, (at_s, call_id))
            self._sweep()

    def forget(self, call_id: str) -> None:
        """The call need not be looked at."""
        self._moments.pop(call_id, None)
        self._sweep()

    def due(self, now: float) -> Iterator[str]:
        """Take out the calls that are due, earliest first; they may be noted anew meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            moment, call_id = heapq.heappop(self._heap)
            if self._moments.get(call_id) == moment:
                del self._moments[call_id]
                yield call_id
        self._sweep()

    def covers(self, call_id: str, at_s: float) -> bool:
        """Whether the call will be looked at no later than `at_s`."""
        return self._moments.get(call_id, math.inf) <= at_s

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._moments) + _SLACK:
            self._heap = [(moment, call_id) for call_id, moment in self._moments.items()]
            heapq.heapify(self._heap)

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken."""
        if not {(moment, call_id) for call_id, moment in self._moments.items()} <= set(self._heap):
            raise InvalidTransition("watch is inconsistent: a call that will never be due")
        if len(self._heap) > 2 * len(self._moments) + _SLACK:
            raise InvalidTransition("watch is inconsistent: moments of calls that are long over")
