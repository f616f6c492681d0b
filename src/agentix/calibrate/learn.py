"""From an engine's step log to what a simulation needs to know of it."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agentix.calibrate.drive import Sent
from agentix.core.errors import AgentixError
from agentix.cost import Step, StepCostModel
from agentix.engine.step_log import StepRecord

Sample = tuple[Step, float]
"""A step and how many seconds it took."""

TimedSample = tuple[Step, float, float]
"""The same with when it began, in seconds, between the two."""


class TooFewSteps(AgentixError):
    """The engine's log holds nothing to learn from."""


def samples_of(records: Sequence[StepRecord], *, since_s: float) -> list[TimedSample]:
    """The steps that began at `since_s` or later, and when after it.

    A step with decodes follows directly on the step before it, so what the engine did in between (take in the output,
    choose the next batch) is part of its time. Before a step without, the engine may have been idle.
    """
    samples: list[TimedSample] = []
    before_s = since_s
    for record in records:
        if record.began_s >= since_s:
            began_s = before_s if record.step.num_decodes else max(before_s, record.began_s)
            samples.append((record.step, record.began_s - since_s, record.returned_s - began_s))
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


def biases(cost: StepCostModel, samples: Sequence[Sample]) -> Mapping[str, float]:
    """By kind of step: estimated time of all its samples ÷ measured time - 1. A straight line that does not fit shows here."""
    estimated: defaultdict[str, float] = defaultdict(float)
    measured: defaultdict[str, float] = defaultdict(float)
    for step, duration_s in samples:
        kind = kind_of(step)
        estimated[kind] += cost.step_s(step)
        measured[kind] += duration_s
    return {kind: estimated[kind] / measured[kind] - 1 for kind in sorted(measured)}


def slowness(cost: StepCostModel, steps: Iterable[Sample]) -> float:
    """Measured time of the steps ÷ the estimate of the same steps."""
    samples = list(steps)
    return sum(duration_s for _, duration_s in samples) / sum(cost.step_s(step) for step, _ in samples)


def pace(cost: StepCostModel, steps: Sequence[TimedSample], *, window_s: float) -> list[float]:
    """How slow the machine was in each window of `window_s` from time 0 on: `slowness` of the steps that began in it.

    It tells nothing of how an engine batches or orders, only how long the steps took that it chose. A window without
    steps has the slowness of all.
    """
    windows: defaultdict[int, list[Sample]] = defaultdict(list)
    for step, began_s, duration_s in steps:
        windows[int(began_s // window_s)].append((step, duration_s))
    whole = slowness(cost, (sample for window in windows.values() for sample in window))
    return [slowness(cost, windows[i]) if i in windows else whole for i in range(max(windows) + 1)]


def kind_of(step: Step) -> str:
    """What is in the step, in classes of twice the size: "decode 5-8", "prefill 65-128" or "mixed 65-128"."""
    if not step.prefill_tokens:
        return f"decode {_size_class(step.num_decodes)}"
    return f"{'mixed' if step.num_decodes else 'prefill'} {_size_class(step.prefill_tokens)}"


def _size_class(size: int) -> str:
    last = 1 << (size - 1).bit_length()
    first = last // 2 + 1
    return f"{first}-{last}" if first < last else f"{last}"
