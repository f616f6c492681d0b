"""Figures of devices and models: what follows from them, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agentix.core.errors import ConfigError
from agentix.cost import DEVICES, MODELS, device_card, kv_capacity_tokens, model_card


def test_kv_bytes_per_token_by_hand() -> None:
    assert model_card("llama-3.1-8b").kv_bytes_per_token == 128 * 1024  # 2 · 32 · 8 · 128 · 2
    assert model_card("llama-3.1-70b").kv_bytes_per_token == 320 * 1024  # 2 · 80 · 8 · 128 · 2
    assert model_card("falcon-180b").kv_bytes_per_token == 160 * 1024  # 2 · 80 · 8 · 64 · 2
    assert model_card("smollm2-135m").kv_bytes_per_token == 22.5 * 1024  # 2 · 30 · 3 · 64 · 2


@pytest.mark.parametrize(("devices", "share"), [(1, 1.0), (4, 0.25), (8, 0.125), (16, 0.125)])
def test_kv_heads_are_shared_out_whole(devices: int, share: float) -> None:
    model = replace(model_card("llama-3.1-8b"), tensor_parallel=devices)
    assert model.device_kv_bytes_per_token == model.kv_bytes_per_token * share


def test_weights_by_hand() -> None:
    assert model_card("llama-3.1-8b").weight_bytes == pytest.approx(16.06e9)
    assert model_card("llama-3.1-8b").body_parameters == pytest.approx(6.98e9, rel=1e-3)
    assert model_card("smollm2-135m").body_parameters == pytest.approx(106.2e6, rel=1e-3)  # one embedding, tied


@pytest.mark.parametrize("name", MODELS)
def test_the_layers_account_for_the_body(name: str) -> None:
    """Attention alone is between h² and 4·h² per layer; the whole layer is some multiple of that."""
    model = model_card(name)
    assert 6 < model.body_parameters / (model.num_layers * model.hidden**2) < 14


def test_context_that_fits() -> None:
    a100, llama = device_card("a100-80gb"), model_card("llama-3.1-8b")
    assert 400_000 < kv_capacity_tokens(a100, llama) < 480_000  # vLLM reports about 450,000
    assert kv_capacity_tokens(a100, llama, memory_utilisation=0.5) < kv_capacity_tokens(a100, llama)
    assert kv_capacity_tokens(device_card("h200"), llama) > 1.8 * kv_capacity_tokens(a100, llama)
    assert kv_capacity_tokens(a100, model_card("llama-3.1-70b")) > 100_000
    assert kv_capacity_tokens(a100, model_card("falcon-180b")) > 100_000
    assert kv_capacity_tokens(device_card("cpu-2core"), model_card("smollm2-135m")) > 10_000


def test_a_model_that_does_not_fit_names_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"llama-3\.1-8b does not fit on 1 × cpu-2core: .* 16\.1 GB .* 5\.6 GB"):
        kv_capacity_tokens(device_card("cpu-2core"), model_card("llama-3.1-8b"))


@pytest.mark.parametrize("utilisation", [0.0, 1.1, -1.0, math.nan])
def test_utilisation_is_a_share(utilisation: float) -> None:
    with pytest.raises(ConfigError, match="memory_utilisation"):
        kv_capacity_tokens(device_card("l4"), model_card("smollm2-135m"), memory_utilisation=utilisation)


def test_unknown_names_list_what_exists() -> None:
    with pytest.raises(ConfigError, match=r"unknown device 'a100'; known: a100-80gb, cpu-2core, h100-sxm, h200, l4"):
        device_card("a100")
    with pytest.raises(ConfigError, match=r"unknown model 'llama'; known: falcon-180b, llama-3\.1-70b"):
        model_card("llama")


def test_cards_stand_under_their_names() -> None:
    assert all(name == card.name for name, card in DEVICES.items())
    assert all(name == card.name for name, card in MODELS.items())


@pytest.mark.parametrize("change", [{"peak_flops_per_s": 0.0}, {"memory_bytes": math.nan}, {"compute_efficiency": 1.2}])
def test_a_device_of_impossible_figures_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(change))} of 'l4'"):
        replace(device_card("l4"), **change)


@pytest.mark.parametrize("change", [{"num_layers": 0}, {"tensor_parallel": -1}, {"num_parameters": 1e6}])
def test_a_model_of_impossible_figures_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(change))} of 'smollm2-135m'"):
        replace(model_card("smollm2-135m"), **change)
