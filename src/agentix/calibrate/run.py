"""A whole calibration: start a real engine, drive it, learn, write the card. Nothing is left running, however it ends."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2

import agentix
from agentix.calibrate.drive import drive
from agentix.calibrate.learn import biases, call_overhead_s, pace, samples_of
from agentix.core.errors import ConfigError
from agentix.cost import CalibratedCard, EngineFacts, fit, save_card
from agentix.engine.command import ENGINE_COMMAND
from agentix.engine.launcher import EngineOptions, start_engines, stop
from agentix.engine.model import resolve_model
from agentix.engine.step_log import read_step_log

_MAX_PROMPT_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateConfig:
    """What to measure, and for how long.

    model              a directory, a hub name, or a built-in model's name
    out                the card is written here
    duration_s         rounds are sent until this has passed, at least one; starting the engine comes on top
    max_prompt_tokens  longest prompt; None: 1024, or half the model's context if that is less
    vllm_args          passed on to vLLM: the card is good for an engine that runs with the same
    engine_command     what the engine's arguments are appended to; see EngineOptions
    """

    model: str
    out: Path
    duration_s: float = 240.0
    max_prompt_tokens: int | None = None
    seed: int = 0
    vllm_args: tuple[str, ...] = ()
    engine_command: tuple[str, ...] = ENGINE_COMMAND
    start_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if not 0 <= self.duration_s < math.inf:
            raise ConfigError(f"the duration must be 0 or more seconds, not {self.duration_s}")
        if self.max_prompt_tokens is not None and self.max_prompt_tokens < 64:
            raise ConfigError(f"the longest prompt must have at least 64 tokens, not {self.max_prompt_tokens}")
        if self.out.is_dir() or not os.access(self.out.parent, os.W_OK):
            raise ConfigError(f"cannot write to {self.out}: not a file in a writable folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The card, and what to know of it.

    biases  by kind of step, how far its estimates are off in sum
    pace    minute by minute, measured time of the steps ÷ the card's estimate: on a quiet machine 1
    """

    card: CalibratedCard
    biases: Mapping[str, float]
    pace: Sequence[float]


async def calibrate(config: CalibrateConfig, *, on_progress: Callable[[str], None]) -> Calibration:
    """Measure and write the card. Raises AgentixError when the engine cannot start or refuses a call."""
    model = await asyncio.to_thread(resolve_model, config.model, on_progress=on_progress)
    with tempfile.TemporaryDirectory(prefix="agentix-calibrate-") as folder:
        step_log = Path(folder) / "steps.jsonl"
        options = EngineOptions(
            model=model,
            served_model_name=config.model,
            vllm_args=config.vllm_args,
            scheduler={"step_log": str(step_log)},
            command=config.engine_command,
        )
        engines = await start_engines([options], on_progress=on_progress, timeout_s=config.start_timeout_s)
        try:
            calibration = await _measure(config, engines[0].url, step_log, on_progress)
        finally:
            on_progress("stopping the engine")
            await stop(engines)
    save_card(calibration.card, config.out)
    return calibration


async def _measure(config: CalibrateConfig, url: str, step_log: Path, on_progress: Callable[[str], None]) -> Calibration:
    began_s = time.monotonic()
    facts, _ = read_step_log(step_log)
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=None) as client:
        calls = await drive(
            client,
            model=config.model,
            num_slots=facts.max_num_seqs,
            max_prompt_tokens=_longest_prompt(config, facts),
            duration_s=config.duration_s,
            seed=config.seed,
            on_progress=on_progress,
        )
    facts, records = read_step_log(step_log)
    steps = samples_of(records, since_s=calls[0].sent_s if calls else began_s)
    samples = [(step, duration_s) for step, _, duration_s in steps]
    card = CalibratedCard(
        model=Path(config.model).name,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        agentix_version=agentix.__version__,
        engine=facts,
        cost=fit(samples),
        call_overhead_s=call_overhead_s(records, calls),
    )
    return Calibration(card=card, biases=biases(card.cost, samples), pace=pace(card.cost, steps, window_s=60.0))


def _longest_prompt(config: CalibrateConfig, facts: EngineFacts) -> int:
    """The longest prompt of the plan; a call continues a prefix of half of it and answers with up to 32 tokens."""
    allowed = facts.max_model_len - 64
    longest = config.max_prompt_tokens or min(_MAX_PROMPT_TOKENS, facts.max_model_len // 2)
    if longest > allowed:
        raise ConfigError(f"the longest prompt must fit the model's context: at most {allowed} tokens, not {longest}")
    return longest
