"""`agentix calibrate` with the real engine and the small model, as short as it can be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentix.cost import Step, causal_pairs, load_card
from agentix.engine.model import BUILT_IN

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def test_a_real_engine_gives_a_card(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    options = ["--out", str(path), "--minutes", "0", "--max-prompt-tokens", "64"]
    vllm = ["--max-num-seqs", "2", "--max-model-len", "512", "--block-size", "32"]
    done = subprocess.run(
        [sys.executable, "-m", "agentix", "calibrate", BUILT_IN, *options, "--", *vllm],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    card = load_card(path)
    assert (card.model, card.engine.max_num_seqs, card.engine.max_model_len, card.engine.block_size) == (BUILT_IN, 2, 512, 32)
    assert card.engine.num_blocks > 100
    quality = card.cost.quality
    assert quality is not None
    assert quality.num_samples > 60
    assert quality.mape < 0.5
    decode_s = card.cost.step_s(Step(num_decodes=1, decode_context_tokens=64))
    prefill_s = card.cost.step_s(Step(prefill_tokens=64, prefill_pairs=causal_pairs(64)))
    assert 0 < decode_s < prefill_s
    assert "kind of step" in done.stdout
    assert str(tmp_path) not in path.read_text()
