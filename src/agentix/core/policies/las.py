"""Least attained service in recent tokens, as the router of llm-d orders programs (its policy `program-aware-fairness`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentix.core.policies.base import SchedulingPolicy
from agentix.core.program import CallRow, ProgramRow

SERVICE_WEIGHT = 0.8
WAIT_WEIGHT = 0.2


class LAS(SchedulingPolicy):
    """Calls of the highest score first: 0.8 x inverted service + 0.2 x head wait.

    Service is input + 2 x output tokens of the program's finished calls, with a half-life of 60 s; head wait is that of
    its longest waiting call. Both are scaled to 0..1 over the programs that have waiting calls. A running call stays.

    Source: github.com/llm-d/llm-d-router, pkg/epp/framework/plugins/flowcontrol/fairness/program-aware. Not modelled: that
    the router scores anew after each call it lets go (here: once per batch choice, a program's later calls by their
    own wait), and that it queues at the gateway, for all engines together, and only while they are saturated.
    """

    reranks = True
    preempts = False

    def ranks(self, calls: Sequence[tuple[CallRow, ProgramRow]], now: float) -> Sequence[float]:
        """The negative scores, less a constant. Of running calls nobody asks."""
        service: dict[str, float] = {}
        head_wait_s: dict[str, float] = {}
        for call, row in calls:
            if not call.running:
                service[row.program_id] = row.recent_tokens_at(now)
                head_wait_s[row.program_id] = max(call.waiting_s(now), head_wait_s.get(row.program_id, 0.0))
        tokens, waits_s = _Range(service.values()), _Range(head_wait_s.values())
        return [
            0.0
            if call.running
            else SERVICE_WEIGHT * tokens.scaled(service[row.program_id]) - WAIT_WEIGHT * waits_s.scaled(call.waiting_s(now))
            for call, row in calls
        ]


class _Range:
    """The range of some values."""

    def __init__(self, values: Collection[float]) -> None:
        self._low, self._high = min(values, default=0.0), max(values, default=0.0)

    def scaled(self, value: float) -> float:
        """0 at the low end, 1 at the high end; 0 if there is but one value."""
        return (value - self._low) / (self._high - self._low) if self._high > self._low else 0.0
