"""Evictions that are not worth it, on vLLM's real scheduler without a model; the pace of prompts is learnt from its steps."""

from __future__ import annotations

import pytest

from benchmarks.without_model.runner import answer
from benchmarks.without_model.scheduler import STEP_S, Engine

pytestmark = pytest.mark.engine

PROMPTS = {"a": list(range(1, 13)), "b": list(range(21, 0, -1))}
TOKENS = {"a": 8, "b": 2}


@pytest.mark.parametrize(("num_steps", "weigh_evictions", "num_evictions"), [(1, True, 0), (2, True, 1), (1, False, 1)])
def test_a_call_waits_for_blocks_that_take_longer_to_compute_than_its_quantum(
    num_steps: int, weigh_evictions: bool, num_evictions: int
) -> None:
    """`a` holds four of eight blocks, and `b`, whose level is better, needs six. The quantum is so many steps of 1 ms.

    The prompt of `a` took one step: eleven tokens more than a decode has, so 1/11 ms a token, and for four blocks of four
    tokens 16/11 ms. That is more than a quantum of one step and less than one of two.
    """
    settings = {
        "policy": "plas",
        "preemption": "park",
        "quanta_s": [num_steps * STEP_S],
        "starvation_ratio": None,
        "weigh_evictions": weigh_evictions,
    }
    engine = Engine(settings, overlap=False, num_slots=1, num_blocks=9)
    engine.add("a", PROMPTS["a"], TOKENS["a"], "p")
    for _ in range(3):
        engine.step()
    assert engine.scheduler._pace.s_per_token == pytest.approx(STEP_S / 11)
    engine.add("b", PROMPTS["b"], TOKENS["b"], "q")
    engine.step()
    assert [r.request_id for r in engine.scheduler.running] == (["b"] if num_evictions else ["a"])
    engine.run()
    assert engine.scheduler._parking.counts.num_evictions == num_evictions
    assert engine.num_tokens_of["a"] == 12 + 8 - 1 + (14 - 8 if num_evictions else 0)
    assert engine.answers == {name: answer(PROMPTS[name], TOKENS[name]) for name in PROMPTS}
