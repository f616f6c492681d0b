"""A whole calibration against a stand-in engine whose steps have a known cost: it comes back, and nothing is left."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from agentix.calibrate import CalibrateConfig, calibrate
from agentix.calibrate.drive import ProbeFailed
from agentix.core.errors import ConfigError
from agentix.cost import FittedCost, load_card
from calibrate_engine import COST, FACTS, OVERHEAD_S

FAKE = Path(__file__).parents[2] / "calibrate_engine.py"


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_STATE_DIR", str(tmp_path / "logs"))


def config(tmp_path: Path, *vllm_args: str, max_prompt_tokens: int | None = None) -> CalibrateConfig:
    return CalibrateConfig(
        model="a-model",
        out=tmp_path / "card.json",
        duration_s=0.0,
        max_prompt_tokens=max_prompt_tokens,
        vllm_args=vllm_args,
        engine_command=(sys.executable, str(FAKE)),
        start_timeout_s=30.0,
    )


def processes_with_logs_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(process.joinpath("fd/1").readlink()).startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


async def test_the_known_cost_comes_back_in_the_card(tmp_path: Path) -> None:
    said: list[str] = []
    calibration = await calibrate(config(tmp_path), on_progress=said.append)
    card = load_card(tmp_path / "card.json")
    assert card == calibration.card
    assert (card.model, card.engine) == ("a-model", FACTS)
    for field in fields(FittedCost):
        if field.name != "quality":
            assert getattr(card.cost, field.name) == pytest.approx(getattr(COST, field.name), rel=1e-3), field.name
    assert card.cost.quality is not None
    assert card.cost.quality.undetermined == ()
    assert OVERHEAD_S <= card.call_overhead_s < 20 * OVERHEAD_S
    assert all(abs(bias) < 1e-3 for bias in calibration.biases.values())
    assert any("round 1" in line for line in said)
    assert processes_with_logs_in(tmp_path) == []


async def test_a_refused_call_ends_it_with_the_engines_words_and_no_card(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailed, match="HTTP 400: the prompt is too long"):
        await calibrate(config(tmp_path, "--fake-refuse"), on_progress=print)
    assert not (tmp_path / "card.json").exists()
    assert processes_with_logs_in(tmp_path) == []


async def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    """What asyncio.run does to the task at Ctrl-C, in the middle of a call."""
    healthy = asyncio.Event()

    def on_progress(line: str) -> None:
        if "healthy" in line:
            healthy.set()

    task = asyncio.create_task(calibrate(config(tmp_path, "--fake-stuck"), on_progress=on_progress))
    await asyncio.wait_for(healthy.wait(), 30)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "card.json").exists()
    assert processes_with_logs_in(tmp_path) == []


async def test_prompts_that_do_not_fit_the_context_are_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at most 192 tokens, not 193"):
        await calibrate(config(tmp_path, max_prompt_tokens=193), on_progress=print)


@pytest.mark.parametrize(("name", "value"), [("duration_s", -1.0), ("duration_s", float("nan")), ("max_prompt_tokens", 63)])
def test_bad_settings_are_refused_before_anything_starts(tmp_path: Path, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=str(value)):
        CalibrateConfig(model="m", out=tmp_path / "card.json", **{name: value})  # type: ignore[arg-type]


def test_a_card_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write to"):
        CalibrateConfig(model="m", out=tmp_path / "nowhere" / "card.json")
