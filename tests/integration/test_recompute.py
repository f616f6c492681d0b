"""Preemption that drops KV, on vLLM's real scheduler without a model: who stands aside is evicted at once."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.without_model.runner import answer
from benchmarks.without_model.scheduler import STEP_S, Engine

pytestmark = pytest.mark.engine

PROMPTS = {"long": [1, 2, 3, 4, 5], "short": [6, 7, 8]}
TOKENS = {"long": 12, "short": 3}


def served(preemption: str) -> Any:
    """A call that is demoted after two steps, and one of a new program that comes in its fourth, on one slot."""
    settings = {"policy": "plas", "preemption": preemption, "quanta_s": [2 * STEP_S], "starvation_ratio": None}
    engine = Engine(settings, overlap=False, num_slots=1, num_blocks=30)
    engine.add("long", PROMPTS["long"], TOKENS["long"], "p")
    for _ in range(4):
        engine.step()
    engine.add("short", PROMPTS["short"], TOKENS["short"], "q")
    engine.run()
    assert engine.answers == {name: answer(PROMPTS[name], TOKENS[name]) for name in PROMPTS}
    return engine.scheduler._parking.counts


def test_a_call_that_stands_aside_loses_its_kv_and_still_gives_every_token_once() -> None:
    counts = served("recompute")
    assert (counts.num_parks, counts.num_resumes, counts.num_evictions) == (1, 0, 1)
    assert counts.evicted_tokens == 8  # four steps: its prompt of 5, then three tokens of its answer


def test_parked_it_keeps_its_kv() -> None:
    counts = served("park")
    assert (counts.num_parks, counts.num_resumes, counts.num_evictions, counts.evicted_tokens) == (1, 1, 0, 0)
