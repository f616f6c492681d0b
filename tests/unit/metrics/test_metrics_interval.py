"""Confidence intervals of repeats, worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.metrics.interval import mean_interval, ratio_interval, t_975


def test_a_mean_has_students_interval() -> None:
    found = mean_interval([1.0, None, 2.0, 3.0])
    assert found is not None
    half = 4.303 / math.sqrt(3)  # s = 1, two degrees of freedom
    assert (found.centre, found.num_values) == (2.0, 3)
    assert found.low == pytest.approx(2 - half)
    assert found.high == pytest.approx(2 + half)


def test_of_one_value_nobody_knows_how_sure_it_is() -> None:
    found = mean_interval([4.0])
    assert found is not None
    assert (found.centre, found.low, found.high, found.num_values) == (4.0, None, None, 1)
    assert not found.is_below_one
    assert not found.is_above_one
    assert mean_interval([None]) is None


def test_ratios_are_taken_within_pairs_and_averaged_as_logarithms() -> None:
    found = ratio_interval([(1.0, 2.0), (4.0, 2.0)])  # half, and double
    assert found is not None
    assert found.centre == pytest.approx(1.0)
    assert found.high == pytest.approx(2**12.706)  # t(1) · ln 2 · √2 / √2
    assert found.low == pytest.approx(2**-12.706)
    equal = ratio_interval([(3.0, 6.0), (1.0, 2.0), (None, 2.0), (2.0, 0.0)])
    assert equal is not None
    assert equal.num_values == 2
    assert [equal.centre, equal.high] == pytest.approx([0.5, 0.5])
    assert equal.is_below_one
    assert ratio_interval([(1.0, 0.0)]) is None


@pytest.mark.parametrize(("degrees", "t"), [(1, 12.706), (4, 2.776), (30, 2.042), (31, 2.0395), (60, 2.0003), (120, 1.9799)])
def test_t_is_that_of_the_tables(degrees: int, t: float) -> None:
    assert t_975(degrees) == pytest.approx(t, abs=1e-4)


@given(st.integers(1, 500))
def test_t_falls_towards_the_normal_distribution(degrees: int) -> None:
    assert t_975(degrees) > t_975(degrees + 1) > 1.9599


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=8), st.floats(0.1, 10))
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    one = mean_interval(values)
    other = mean_interval(value * factor for value in values)
    assert one is not None
    assert other is not None
    assert one.low is not None
    assert other.low is not None
    assert other.centre == pytest.approx(one.centre * factor)
    assert other.low == pytest.approx(one.low * factor, abs=1e-9)
