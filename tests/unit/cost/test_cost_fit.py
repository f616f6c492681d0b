"""Fitting: coefficients that are known come back, noise is averaged out, and poor samples are named."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core.errors import ConfigError
from agentix.cost import FittedCost, Roofline, Step, causal_pairs, device_card, fit, model_card
from agentix.cost.fitted import COEFFICIENTS
from agentix.cost.nnls import nonnegative_least_squares

CPU = FittedCost(
    per_step_s=0.02,
    per_prefill_token_s=2e-3,
    per_prefill_pair_s=4e-7,
    per_decode_s=8e-3,
    per_decode_context_token_s=5e-6,
)


def random_step(rng: random.Random) -> Step:
    """A step as a serving engine has them: most are decodes alone, some carry a chunk of prefill."""
    num_decodes = rng.randrange(1, 33)
    chunk = rng.choice((0, 0, 0, rng.randrange(1, 1024)))
    return Step(
        prefill_tokens=chunk,
        prefill_pairs=causal_pairs(chunk, rng.randrange(4096)),
        num_decodes=num_decodes,
        decode_context_tokens=sum(rng.randrange(20, 4096) for _ in range(num_decodes)),
    )


def samples_of(cost: FittedCost, *, num: int, noise: float = 0.0, seed: int = 1) -> list[tuple[Step, float]]:
    rng = random.Random(seed)
    steps = [random_step(rng) for _ in range(num)]
    return [(step, cost.step_s(step) * rng.gauss(1.0, noise)) for step in steps]


def coefficients(cost: FittedCost) -> list[float]:
    return [getattr(cost, name) for name in COEFFICIENTS]


@settings(max_examples=25, deadline=None)
@given(st.tuples(*(st.one_of(st.just(0.0), st.floats(0.1, 10.0)) for _ in COEFFICIENTS)), st.integers(0, 2**32))
def test_without_noise_the_coefficients_come_back(factors: tuple[float, ...], seed: int) -> None:
    values = zip(COEFFICIENTS, factors, coefficients(CPU), strict=True)
    known = FittedCost.from_mapping({name: factor * typical for name, factor, typical in values})
    if known.per_step_s == 0 and known.per_decode_s == 0 and known.per_decode_context_token_s == 0:
        return  # steps without prefill would take no time, which is no sample
    fitted = fit(samples_of(known, num=60, seed=seed))
    assert coefficients(fitted) == pytest.approx(coefficients(known), rel=1e-6, abs=1e-15)
    assert fitted.quality is not None
    assert fitted.quality.mape < 1e-9
    assert fitted.quality.undetermined == ()


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_averaged_out(seed: int) -> None:
    fitted = fit(samples_of(CPU, num=2000, noise=0.05, seed=seed))
    assert coefficients(fitted) == pytest.approx(coefficients(CPU), rel=0.05)
    assert fitted.quality is not None
    assert 0.03 < fitted.quality.mape < 0.05  # the mean of |gauss(0, 0.05)| is 0.04
    assert fitted.quality.num_samples == 2000
    assert fitted.quality.r_squared is not None
    assert fitted.quality.r_squared > 0.95


def test_the_total_time_of_noisy_steps_comes_out_right() -> None:
    """Errors relative to the samples themselves would make the fit about 2 x 0.2² = 8 % too fast."""
    samples = samples_of(CPU, num=4000, noise=0.2)
    fitted = fit(samples)
    assert sum(fitted.step_s(step) for step, _ in samples) == pytest.approx(sum(t for _, t in samples), rel=0.01)


def test_the_order_of_the_samples_does_not_matter() -> None:
    samples = samples_of(CPU, num=50, noise=0.2)
    assert coefficients(fit(samples)) == coefficients(fit(samples[::-1]))


def test_a_few_stalls_do_little_harm() -> None:
    samples = samples_of(CPU, num=1000, noise=0.05)
    stalled = [(step, t * (100 if i % 100 == 0 else 1)) for i, (step, t) in enumerate(samples)]
    assert coefficients(fit(stalled)) == pytest.approx(coefficients(CPU), rel=0.15)


def test_a_roofline_is_nearly_a_straight_line_in_the_range_of_serving() -> None:
    cost = Roofline(device_card("a100-80gb"), model_card("llama-3.1-8b"))
    rng = random.Random(3)
    fitted = fit([(step, cost.step_s(step)) for step in (random_step(rng) for _ in range(500))])
    assert fitted.quality is not None
    assert fitted.quality.mape < 0.15


def test_without_prefill_its_coefficients_are_zero_and_named() -> None:
    steps = [Step(num_decodes=n, decode_context_tokens=c) for n, c in product((1, 2, 5), (100, 900))]
    fitted = fit([(step, CPU.step_s(step)) for step in steps])
    assert (fitted.per_prefill_token_s, fitted.per_prefill_pair_s) == (0.0, 0.0)
    assert fitted.per_decode_s == pytest.approx(CPU.per_decode_s)
    assert fitted.quality is not None
    assert fitted.quality.undetermined == ("per_prefill_token_s", "per_prefill_pair_s")


def test_work_that_always_comes_together_is_told_apart_by_none() -> None:
    """One decode in every step: its cost is part of the step's."""
    steps = [Step(num_decodes=1, decode_context_tokens=c, prefill_tokens=p) for c, p in product((10, 20, 40), (0, 5))]
    fitted = fit([(step, CPU.step_s(step)) for step in steps])
    assert fitted.per_step_s == pytest.approx(CPU.per_step_s + CPU.per_decode_s)
    assert fitted.per_decode_s == 0.0
    assert fitted.quality is not None
    assert fitted.quality.undetermined == ("per_step_s", "per_prefill_pair_s", "per_decode_s")


def test_equal_times_have_no_variance_to_explain() -> None:
    fitted = fit([(Step(num_decodes=n), 0.5) for n in range(1, 9)])
    assert fitted.per_step_s == 0.5
    assert fitted.quality is not None
    assert fitted.quality.r_squared is None
    assert fitted.quality.mape == 0.0


def test_what_falls_with_work_gets_no_negative_coefficient() -> None:
    fitted = fit([(Step(num_decodes=n), 1.0 - 0.1 * n) for n in range(1, 9)])
    assert fitted.per_decode_s == 0.0
    assert fitted.per_step_s > 0.0


def test_too_few_samples() -> None:
    with pytest.raises(ConfigError, match="a fit of 5 coefficients needs as many samples, not 4"):
        fit(samples_of(CPU, num=4))


@pytest.mark.parametrize("duration_s", [0.0, -1.0, math.nan, math.inf, 1e-30])
def test_a_time_that_is_none(duration_s: float) -> None:
    samples = samples_of(CPU, num=5)
    with pytest.raises(ConfigError, match=r"sample 3: .* is not a positive number of seconds"):
        fit([*samples[:2], (Step(num_decodes=1), duration_s), *samples[2:]])


def test_an_empty_step() -> None:
    with pytest.raises(ConfigError, match="sample 6: the step is empty"):
        fit([*samples_of(CPU, num=5), (Step(), 0.1)])


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=1, max_size=6), st.just(n), st.integers()
        )
    )
)
def test_least_squares_satisfy_the_optimality_conditions(problem: tuple[list[list[int]], int, int]) -> None:
    """c ≥ 0; the gradient is ≥ 0, and 0 wherever c is positive (Karush-Kuhn-Tucker), so nothing better exists."""
    rows, num, seed = problem
    rng = random.Random(seed)
    right = [rng.randrange(-9, 10) for _ in rows]
    gram = [[sum(row[i] * row[j] for row in rows) for j in range(num)] for i in range(num)]
    target = [sum(row[i] * y for row, y in zip(rows, right, strict=True)) for i in range(num)]
    solution = nonnegative_least_squares(gram, target)
    gradient = [sum(g * c for g, c in zip(gram[i], solution, strict=True)) - target[i] for i in range(num)]
    assert all(c >= 0 and g >= 0 and c * g == 0 for c, g in zip(solution, gradient, strict=True))
