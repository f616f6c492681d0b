"""From measured steps to coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from agentix.core.errors import ConfigError
from agentix.cost.fitted import COEFFICIENTS, FitQuality, FittedCost, features
from agentix.cost.nnls import dependent_columns, nonnegative_least_squares
from agentix.cost.step import Step

Sample = tuple[Step, float]

_TICKS_PER_S = 2**60
_WEIGHT_SCALE = 2**200
_NUM_REFITS = 2


def fit(samples: Sequence[Sample]) -> FittedCost:
    """The coefficients ≥ 0 that minimise Σ ((t - t̂) / s)² over (step, seconds t) pairs, with s = max(t̂, t / 2).

    Relative errors, because a step's noise grows with its length: a prefill of seconds would otherwise drown the
    decodes of milliseconds, which most steps are. Relative to the estimate t̂, because errors relative to t itself make
    short samples of a noisy step count more than its long ones: with 12 % of noise that fit is 3 % too fast. Half of t
    bounds what a stall can do: a step that took far too long counts as one that is wrong by 200 %. Since t̂ is not known
    before the fit, it is fitted relative to t first and then twice more relative to the estimates before.

    Too few samples (fewer than coefficients), an empty step and a time that is not a positive number of seconds are a
    ConfigError. Samples that cannot tell coefficients apart (every chunk of one length; no prefill at all) give a fit
    all the same: of equally good ones that with the fewest coefficients that are not 0; `quality.undetermined` names
    those in question.
    """
    if len(samples) < len(COEFFICIENTS):
        raise ConfigError(f"a fit of {len(COEFFICIENTS)} coefficients needs as many samples, not {len(samples)}")
    for number, sample in enumerate(samples, start=1):
        _check(sample, number)
    scales_s = [duration_s for _, duration_s in samples]
    for _ in range(1 + _NUM_REFITS):
        gram, target = _normal_equations(samples, scales_s)
        solution = nonnegative_least_squares(gram, target)
        cost = FittedCost.from_mapping({name: float(c / _TICKS_PER_S) for name, c in zip(COEFFICIENTS, solution, strict=True)})
        scales_s = [max(cost.step_s(step), duration_s / 2) for step, duration_s in samples]
    undetermined = tuple(COEFFICIENTS[i] for i in dependent_columns(gram))
    return replace(cost, quality=_quality(cost, samples, undetermined))


def _check(sample: Sample, number: int) -> None:
    step, duration_s = sample
    if step.is_empty:
        raise ConfigError(f"sample {number}: the step is empty")
    if not 0 < duration_s < math.inf or round(duration_s * _TICKS_PER_S) == 0:
        raise ConfigError(f"sample {number}: {duration_s!r} is not a positive number of seconds")


def _normal_equations(samples: Sequence[Sample], scales_s: Sequence[float]) -> tuple[list[list[int]], list[int]]:
    """XᵀWX and XᵀWy in whole numbers, exact: y in ticks, W = 1/s² scaled up and rounded."""
    num = len(COEFFICIENTS)
    gram = [[0] * num for _ in range(num)]
    target = [0] * num
    for (step, duration_s), scale_s in zip(samples, scales_s, strict=True):
        ticks = round(duration_s * _TICKS_PER_S)
        weight = max(1, _WEIGHT_SCALE // max(1, round(scale_s * _TICKS_PER_S)) ** 2)
        row = features(step)
        weighted = [weight * x for x in row]
        for i in range(num):
            target[i] += weighted[i] * ticks
            for j in range(num):
                gram[i][j] += weighted[i] * row[j]
    return gram, target


def _quality(cost: FittedCost, samples: Sequence[Sample], undetermined: tuple[str, ...]) -> FitQuality:
    errors = [cost.step_s(step) - duration_s for step, duration_s in samples]
    mean_s = math.fsum(duration_s for _, duration_s in samples) / len(samples)
    variation = math.fsum((duration_s - mean_s) ** 2 for _, duration_s in samples)
    same = all(duration_s == samples[0][1] for _, duration_s in samples)
    return FitQuality(
        num_samples=len(samples),
        r_squared=None if same else 1 - math.fsum(error**2 for error in errors) / variation,
        mape=math.fsum(abs(error) / duration_s for error, (_, duration_s) in zip(errors, samples, strict=True)) / len(samples),
        undetermined=undetermined,
    )
