"""Steps, the pairs of a prefill chunk, and the cost that every worked example uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.cost import Step, StepCostModel, UnitCost, causal_pairs


def test_a_unit_of_time_for_any_step_and_none_for_an_empty_one() -> None:
    cost: StepCostModel = UnitCost()
    assert cost.step_s(Step()) == 0.0
    assert cost.step_s(Step(num_decodes=1)) == cost.step_s(Step(prefill_tokens=9, prefill_pairs=45)) == 1.0


@pytest.mark.parametrize("field", ["prefill_tokens", "prefill_pairs", "num_decodes", "decode_context_tokens"])
def test_no_step_holds_negative_work(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=-1"):
        Step(**{field: -1})


def test_pairs_by_hand() -> None:
    assert causal_pairs(0) == causal_pairs(0, 7) == 0
    assert causal_pairs(3) == 1 + 2 + 3
    assert causal_pairs(2, 5) == 6 + 7


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_prompt_has_the_same_pairs_however_it_is_cut(first: int, second: int, before: int) -> None:
    assert causal_pairs(first + second, before) == causal_pairs(first, before) + causal_pairs(second, before + first)
