"""The card of a measured engine: it reads back, and what is no card is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentix.core.errors import ConfigError
from agentix.cost import CalibratedCard, EngineFacts, FitQuality, FittedCost, load_card, save_card

ENGINE = EngineFacts(
    device="a processor, 1 thread(s)",
    vllm_version="0.32.0",
    dtype="float32",
    max_num_seqs=8,
    max_batch_tokens=2048,
    block_size=32,
    num_blocks=727,
    max_model_len=4096,
    prefix_cache=True,
    async_scheduling=False,
)
CARD = CalibratedCard(
    model="a-model",
    measured_at="2026-11-30T09:00:00+00:00",
    agentix_version="0.1.0",
    engine=ENGINE,
    cost=FittedCost(
        per_step_s=0.09,
        per_prefill_token_s=4e-3,
        per_prefill_pair_s=2e-6,
        per_decode_s=4e-3,
        per_decode_context_token_s=5e-6,
        quality=FitQuality(num_samples=900, r_squared=0.98, mape=0.07),
    ),
    call_overhead_s=0.016,
)


def test_a_card_reads_back(tmp_path: Path) -> None:
    save_card(CARD, tmp_path / "card.json")
    assert load_card(tmp_path / "card.json") == CARD
    assert [file.name for file in tmp_path.iterdir()] == ["card.json"]


def test_the_kv_cache_in_tokens() -> None:
    assert ENGINE.kv_tokens == 727 * 32


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("schema",), "agentix-cost-card/9", "schema must be 'agentix-cost-card/1'"),
        (("model",), 3, "model must be text"),
        (("call_overhead_s",), -1, "call_overhead_s must be 0 or more"),
        (("call_overhead_s",), True, "call_overhead_s must be 0 or more"),
        (("call_overhead_s",), float("inf"), "call_overhead_s must be 0 or more"),
        (("engine",), [], "engine: an object"),
        (("engine", "num_blocks"), 0, "num_blocks must be a whole number"),
        (("engine", "num_blocks"), True, "num_blocks must be a whole number"),
        (("engine", "prefix_cache"), 1, "prefix_cache must be a bool"),
        (("engine", "nmu_blocks"), 1, "nmu_blocks"),
        (("cost", "per_step_s"), -1, "per_step_s must be"),
        (("machine",), "mine", "unknown cost card field 'machine'"),
    ],
)
def test_a_wrong_field_is_named_with_the_file(tmp_path: Path, path: tuple[str, ...], value: Any, problem: str) -> None:
    raw = CARD.to_mapping()
    inner = raw if len(path) == 1 else raw[path[0]]
    inner[path[-1]] = value
    (tmp_path / "card.json").write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match=problem) as error:
        load_card(tmp_path / "card.json")
    assert "card.json" in str(error.value)


@pytest.mark.parametrize("name", CARD.to_mapping())
def test_a_missing_field_is_named(name: str) -> None:
    raw = CARD.to_mapping()
    del raw[name]
    with pytest.raises(ConfigError, match=f"'{name}' is missing"):
        CalibratedCard.from_mapping(raw)


def test_what_is_no_card_is_refused(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("{")
    for name, problem in (("card.json", "card.json is not JSON"), ("nowhere.json", "nowhere.json: cannot be read")):
        with pytest.raises(ConfigError, match=problem):
            load_card(tmp_path / name)
