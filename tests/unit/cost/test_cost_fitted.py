"""The fitted cost: its sum, its promises, and its card."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.errors import ConfigError
from agentix.cost import FitQuality, FittedCost, Step
from agentix.cost.fitted import COEFFICIENTS

SECONDS = st.floats(0.0, 1e3)
QUALITIES = st.builds(
    FitQuality,
    num_samples=st.integers(1, 10**6),
    r_squared=st.none() | st.floats(-10.0, 1.0),
    mape=st.floats(0.0, 10.0),
    undetermined=st.lists(st.sampled_from(COEFFICIENTS), unique=True).map(tuple),
)
COSTS = st.builds(FittedCost, **dict.fromkeys(COEFFICIENTS, SECONDS), quality=st.none() | QUALITIES)
STEPS = st.builds(Step, **dict.fromkeys(Step.__slots__, st.integers(0, 10**6)))
CARD: dict[str, Any] = {name: float(i) for i, name in enumerate(COEFFICIENTS, start=1)}
QUALITY: dict[str, Any] = {"num_samples": 9, "r_squared": 0.9, "mape": 0.1}


def test_the_sum_by_hand() -> None:
    cost = FittedCost.from_mapping(CARD)
    step = Step(prefill_tokens=10, prefill_pairs=100, num_decodes=1000, decode_context_tokens=10_000)
    assert cost.step_s(step) == 1 + 20 + 300 + 4000 + 50_000
    assert cost.step_s(Step()) == 0.0


@given(COSTS, STEPS, STEPS)
def test_more_work_never_takes_less_time(cost: FittedCost, step: Step, more: Step) -> None:
    larger = Step(**{name: getattr(step, name) + getattr(more, name) for name in Step.__slots__})
    assert 0.0 <= cost.step_s(step) <= cost.step_s(larger)


@given(COSTS)
def test_a_card_comes_back_as_it_was(cost: FittedCost) -> None:
    assert FittedCost.from_mapping(json.loads(json.dumps(cost.to_mapping()))) == cost


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "1", None, True, 10**400])
def test_a_coefficient_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be a number of seconds"):
        FittedCost.from_mapping(CARD | {name: value})


def test_a_missing_coefficient_is_named() -> None:
    with pytest.raises(ConfigError, match="cost card field 'per_step_s' is missing"):
        FittedCost.from_mapping({key: value for key, value in CARD.items() if key != "per_step_s"})


def test_an_unknown_key_is_named_beside_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="unknown cost card field 'per_token_s'; known: per_decode_context_token_s"):
        FittedCost.from_mapping(CARD | {"per_token_s": 1.0})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 0}, "num_samples must be a whole number"),
        ({"num_samples": 2.5}, "num_samples must be a whole number"),
        ({"r_squared": 1.1}, "r_squared must be a number of at most 1"),
        ({"r_squared": math.nan}, "r_squared must be a number of at most 1"),
        ({"mape": -0.1}, "mape must be a number of 0 or more"),
        ({"mape": None}, "mape must be a number of 0 or more"),
        ({"undetermined": "per_step_s"}, "undetermined must be a list"),
        ({"undetermined": ["speed"]}, "unknown coefficient in undetermined 'speed'"),
        ({"undetermined": [["per_step_s"]]}, "unknown coefficient in undetermined"),
        ({"samples": 3}, "unknown quality field 'samples'"),
    ],
)
def test_a_quality_that_is_none_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FittedCost.from_mapping(CARD | {"quality": QUALITY | change})


def test_what_is_no_object() -> None:
    with pytest.raises(ConfigError, match="an object with each cost card field is expected, not 3"):
        FittedCost.from_mapping(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an object with each quality field is expected, not 'good'"):
        FittedCost.from_mapping(CARD | {"quality": "good"})
