"""The roofline: its promises for every device and model, and figures that are publicly known."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.cost import DEVICES, MODELS, Roofline, Step, causal_pairs, device_card, model_card, roofline

STEPS = st.builds(
    Step,
    prefill_tokens=st.integers(0, 16_384),
    prefill_pairs=st.integers(0, 10**9),
    num_decodes=st.integers(0, 512),
    decode_context_tokens=st.integers(0, 10**7),
)
ROOFLINES = st.builds(Roofline, st.sampled_from(list(DEVICES.values())), st.sampled_from(list(MODELS.values())))


def prefill(num_tokens: int) -> Step:
    return Step(prefill_tokens=num_tokens, prefill_pairs=causal_pairs(num_tokens))


def decodes(num: int, context: int) -> Step:
    return Step(num_decodes=num, decode_context_tokens=num * context)


def milliseconds(device: str, model: str, step: Step) -> float:
    return 1e3 * Roofline(device_card(device), model_card(model)).step_s(step)


@pytest.mark.parametrize(
    ("device", "model", "step", "low_ms", "high_ms"),
    [
        ("a100-80gb", "llama-3.1-8b", decodes(1, 100), 8, 12),
        ("a100-80gb", "llama-3.1-8b", decodes(64, 1000), 12, 25),
        ("a100-80gb", "llama-3.1-8b", prefill(2048), 80, 200),
        ("a100-80gb", "llama-3.1-70b", decodes(1, 100), 20, 40),
        ("a100-80gb", "falcon-180b", decodes(1, 100), 25, 50),
        ("h100-sxm", "llama-3.1-8b", decodes(1, 100), 5, 9),
        ("h200", "llama-3.1-8b", decodes(1, 100), 3.5, 7),
        ("l4", "llama-3.1-8b", decodes(1, 100), 50, 80),
        ("cpu-2core", "smollm2-135m", decodes(1, 100), 15, 120),
    ],
)
def test_anchor(device: str, model: str, step: Step, low_ms: float, high_ms: float) -> None:
    assert low_ms < milliseconds(device, model, step) < high_ms


@given(ROOFLINES, STEPS, STEPS)
def test_more_work_never_takes_less_time(cost: Roofline, step: Step, more: Step) -> None:
    larger = Step(
        prefill_tokens=step.prefill_tokens + more.prefill_tokens,
        prefill_pairs=step.prefill_pairs + more.prefill_pairs,
        num_decodes=step.num_decodes + more.num_decodes,
        decode_context_tokens=step.decode_context_tokens + more.decode_context_tokens,
    )
    assert 0.0 <= cost.step_s(step) <= cost.step_s(larger)


@given(ROOFLINES)
def test_no_work_takes_no_time(cost: Roofline) -> None:
    assert cost.step_s(Step()) == 0.0


def test_weights_are_read_once_for_all_decodes() -> None:
    cost = Roofline(device_card("a100-80gb"), model_card("llama-3.1-8b"))
    assert cost.linear_s(decodes(64, 0)) == cost.linear_s(decodes(1, 0))
    assert cost.linear_s(decodes(512, 0)) > cost.linear_s(decodes(1, 0))


def test_terms_by_hand() -> None:
    """Every efficiency 1 and the card's own figures: 7.505e9 weights read, 6.979e9 of them for each prompt token."""
    a100 = replace(device_card("a100-80gb"), compute_efficiency=1.0, attention_efficiency=1.0, memory_efficiency=1.0)
    cost = Roofline(a100, model_card("llama-3.1-8b"))
    assert cost.linear_s(decodes(1, 0)) == pytest.approx(2 * 7.505e9 / 2039e9, rel=1e-3)
    assert cost.linear_s(prefill(2048)) == pytest.approx(2 * 6.979e9 * 2048 / 312e12, rel=1e-3)
    assert cost.attention_s(prefill(2048)) == pytest.approx(4 * 32 * 4096 * (2048 * 2049 / 2) / 312e12)
    assert cost.attention_s(decodes(64, 1000)) == pytest.approx(64_000 * 131_072 / 2039e9)
    assert cost.all_reduce_s(decodes(1, 0)) == 0.0


def test_devices_pay_for_working_together() -> None:
    """Four devices with two reductions in each of 80 layers: 160 latencies, and 1.5 · n · h · 2 bytes over each link."""
    a100 = replace(device_card("a100-80gb"), link_efficiency=1.0)
    cost = Roofline(a100, model_card("llama-3.1-70b"))
    assert cost.all_reduce_s(decodes(1, 0)) == pytest.approx(160 * (10e-6 + 1.5 * 8192 * 2 / 300e9))
    one = Roofline(a100, replace(model_card("llama-3.1-70b"), tensor_parallel=1))
    assert 2 < one.step_s(prefill(4096)) / cost.step_s(prefill(4096)) < 4


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(roofline) == (0, 3)
