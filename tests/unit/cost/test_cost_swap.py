"""Swap against recompute, and one bulk copy against one per block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.cost import (
    DEVICES,
    MODELS,
    DeviceCard,
    ModelCard,
    Roofline,
    Step,
    UnitCost,
    device_card,
    model_card,
    recompute_s,
    swap_s,
)

BLOCK = 16
A100, LLAMA = device_card("a100-80gb"), model_card("llama-3.1-8b")


@pytest.mark.parametrize("num_tokens", [1024, 4096, 32_768])
def test_bulk_saves_what_the_paper_says(num_tokens: int) -> None:
    """Figure 19 of the paper: 3-7x less swap time."""
    each = swap_s(A100, LLAMA, num_tokens=num_tokens, num_blocks=num_tokens // BLOCK, bulk=False)
    bulk = swap_s(A100, LLAMA, num_tokens=num_tokens, num_blocks=num_tokens // BLOCK, bulk=True)
    assert 3 < each / bulk < 7


def test_swap_by_hand() -> None:
    """One block of 16 tokens is 2 MiB: 64 copies of 5 µs, and 82 µs over 0.8 · 32 GB/s."""
    transfer_s = 2 * 2**20 / 25.6e9
    assert swap_s(A100, LLAMA, num_tokens=16, num_blocks=1, bulk=False) == pytest.approx(64 * 5e-6 + transfer_s)
    gather_s = 2 * 2 * 2**20 / (0.8 * 2039e9)
    assert swap_s(A100, LLAMA, num_tokens=16, num_blocks=1, bulk=True) == pytest.approx(10e-6 + transfer_s + gather_s)


@given(st.sampled_from(list(DEVICES.values())), st.sampled_from(list(MODELS.values())), st.integers(0, 999), st.integers(0, 99))
def test_more_blocks_never_take_less_time(device: DeviceCard, model: ModelCard, num_blocks: int, more: int) -> None:
    for bulk in (False, True):
        times = [swap_s(device, model, num_tokens=n * BLOCK, num_blocks=n, bulk=bulk) for n in (num_blocks, num_blocks + more)]
        assert 0.0 <= times[0] <= times[1]


def test_nothing_to_move_or_to_compute_takes_no_time() -> None:
    for bulk in (False, True):
        assert swap_s(A100, LLAMA, num_tokens=0, num_blocks=0, bulk=bulk) == 0.0
    assert recompute_s(UnitCost(), 0) == 0.0


def test_recompute_is_one_prefill_of_everything() -> None:
    cost = Roofline(A100, LLAMA)
    assert recompute_s(cost, 3) == cost.step_s(Step(prefill_tokens=3, prefill_pairs=6))


def test_on_an_a100_moving_in_bulk_beats_computing_again_both_ways() -> None:
    there_and_back = 2 * swap_s(A100, LLAMA, num_tokens=4096, num_blocks=256, bulk=True)
    assert there_and_back < recompute_s(Roofline(A100, LLAMA), 4096)
