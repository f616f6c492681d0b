"""What is sent: every kind of load in every round, of exact lengths, with prefixes shared where they should be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.calibrate.plan import make_round


def test_a_round_for_four_slots() -> None:
    prefix, *bursts = make_round(random.Random(1), num_slots=4, max_prompt_tokens=128)
    base = prefix[0].prompt
    assert (len(prefix), len(base), prefix[0].output_tokens) == (1, 64, 1)
    alone = sorted((len(b[0].prompt), b[0].output_tokens) for b in bursts if len(b) == 1 and b[0].output_tokens in (1, 4))
    assert alone == [(16, 4), (32, 4), (64, 4), (64 + 16, 1), (64 + 32, 1), (128, 4)]
    decodes = sorted((len(b), len(b[0].prompt)) for b in bursts if b[0].output_tokens == 12 and len(b) <= 4)
    assert decodes == [(n, context + 8) for n in (1, 2, 4) for context in (8, 64)]
    assert all(p.prompt[:8] == base[:8] for b in bursts if b[0].output_tokens == 12 and len(b) <= 4 for p in b)
    [mixed] = [b for b in bursts if len(b) > 4]
    assert len(mixed) == 12


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(64, 4096))
def test_no_prompt_is_longer_than_prefix_and_half_the_limit(seed: int, num_slots: int, max_prompt_tokens: int) -> None:
    bursts = make_round(random.Random(seed), num_slots=num_slots, max_prompt_tokens=max_prompt_tokens)
    assert max(len(p.prompt) for b in bursts for p in b) <= max_prompt_tokens + 8
    assert max(p.output_tokens for b in bursts for p in b) <= 32
    assert max(len(b) for b in bursts[1:] if len(b) != 3 * num_slots) <= num_slots


@pytest.mark.parametrize("num_slots", [1, 6])
def test_decodes_go_up_to_all_slots_even_if_they_are_no_power_of_two(num_slots: int) -> None:
    bursts = make_round(random.Random(1), num_slots=num_slots, max_prompt_tokens=64)
    assert {len(b) for b in bursts if b[0].output_tokens == 12} >= {1, num_slots}


def test_a_seed_gives_one_plan_and_the_next_round_other_tokens() -> None:
    rng = random.Random(5)
    first, second = (make_round(rng, num_slots=2, max_prompt_tokens=64) for _ in range(2))
    assert first == make_round(random.Random(5), num_slots=2, max_prompt_tokens=64)
    assert first[0] != second[0]
