"""From an engine's step log to what a simulation needs to know of it."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from agentix.calibrate.drive import Sent
from agentix.core.errors import AgentixError
from agentix.cost import FittedCost, Step
from agentix.engine.step_log import StepRecord

Sample = tuple[Step, float]


class TooFewSteps(AgentixError):
    """The engine's log holds nothing to learn from."""


def samples_of(records: Sequence[StepRecord], *, since_s: float) -> list[Sample]:
    """(step, seconds) for the steps that began at `since_s` or later.

    A step with decodes follows directly on the step before it, so what the engine did in between (take in the output,
    choose the next batch) is part of its time. Before a step without, the engine may have been idle.
    """
    samples: list[Sample] = []
    before_s = since_s
    for record in records:
        if record.began_s >= since_s:
            began_s = before_s if record.step.num_decodes else max(before_s, record.began_s)
            samples.append((record.step, record.returned_s - began_s))
        before_s = max(before_s, record.returned_s)
    return samples


def call_overhead_s(records: Sequence[StepRecord], calls: Sequence[Sent]) -> float:
    """Median over the calls that had the engine to themselves of what was neither step nor pause between steps, in s."""
    began = [record.began_s for record in records]
    returned = [record.returned_s for record in records]
    overheads = []
    for call in calls:
        first, end = bisect_left(began, call.sent_s), bisect_right(returned, call.ended_s)
        if call.was_alone and first < end:
            overheads.append(call.ended_s - call.sent_s - (returned[end - 1] - began[first]))
    if not overheads:
        raise TooFewSteps("no call had the engine to itself: its overhead is unknown")
    return max(0.0, statistics.median(overheads))


def biases(cost: FittedCost, samples: Sequence[Sample]) -> Mapping[str, float]:
    """By kind of step: estimated time of all its samples ÷ measured time - 1. A straight line that does not fit shows here."""
    estimated: defaultdict[str, float] = defaultdict(float)
    measured: defaultdict[str, float] = defaultdict(float)
    for step, duration_s in samples:
        kind = kind_of(step)
        estimated[kind] += cost.step_s(step)
        measured[kind] += duration_s
    return {kind: estimated[kind] / measured[kind] - 1 for kind in sorted(measured)}


def kind_of(step: Step) -> str:
    """What is in the step, in classes of twice the size: "decode 5-8", "prefill 65-128" or "mixed 65-128"."""
    if not step.prefill_tokens:
        return f"decode {_size_class(step.num_decodes)}"
    return f"{'mixed' if step.num_decodes else 'prefill'} {_size_class(step.prefill_tokens)}"


def _size_class(size: int) -> str:
    last = 1 << (size - 1).bit_length()
    first = last // 2 + 1
    return f"{first}-{last}" if first < last else f"{last}"
