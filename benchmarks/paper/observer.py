"""What a run shows while it goes on: how many calls are in the steps, and how much KV calls that have started keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentix.core.events import Batch, CallFinished, CallStarted, Event, Placed, StepCompleted
from agentix.sim.engine import ModelledEngine

_EVERY = 20  # memory is looked at once in so many starts and ends of calls


class Observer:
    """Hand `record` to a simulation as its `on_decision`, and its engines to `watch`."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float, int]] = []  # (begin_s, end_s, calls) of the steps of all engines
        self.peak_kv_tokens = 0
        self.peak_host_tokens = 0
        self._engines: Mapping[str, ModelledEngine] = {}
        self._until_look = 0

    def watch(self, engines: Mapping[str, ModelledEngine]) -> None:
        """Look at the memory of these engines."""
        self._engines = engines

    def record(self, event: Event, decisions: Sequence[Placed] | Sequence[Batch]) -> None:
        """Take in one line of the decision log."""
        match event:
            case StepCompleted():
                self.spans.append((event.now - event.duration_s, event.now, len(event.call_ids)))
            case CallStarted() | CallFinished():
                if self._until_look == 0:
                    self._look()
                self._until_look = (self._until_look + 1) % _EVERY

    def _look(self) -> None:
        calls = [call for engine in self._engines.values() for call in engine.calls.values()]
        on_host = sum(call.num_swapped for call in calls)
        self.peak_host_tokens = max(self.peak_host_tokens, on_host)
        self.peak_kv_tokens = max(self.peak_kv_tokens, on_host + sum(call.num_computed for call in calls))

    def mean_batch(self, begin_s: float, end_s: float) -> float:
        """Calls in steps, mean over the time from `begin_s` to `end_s`; time without a step counts 0."""
        call_s = sum(max(0.0, min(end, end_s) - max(begin, begin_s)) * calls for begin, end, calls in self.spans)
        return call_s / (end_s - begin_s) if end_s > begin_s else 0.0

    def batch_series(self, end_s: float, num_intervals: int) -> list[tuple[float, float]]:
        """(middle in s, mean calls in steps) of equal intervals from 0 to `end_s`. O(spans + intervals they touch)."""
        width_s = end_s / num_intervals
        call_s = [0.0] * num_intervals
        for begin, end, calls in self.spans:
            first, last = int(begin / width_s), min(int(end / width_s), num_intervals - 1)
            for i in range(first, last + 1):
                call_s[i] += calls * max(0.0, min(end, (i + 1) * width_s) - max(begin, i * width_s))
        return [((i + 0.5) * width_s, total / width_s) for i, total in enumerate(call_s)]
