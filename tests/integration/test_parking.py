"""Parking on vLLM's real scheduler, without a model: nothing is lost, nothing computed twice, nobody parked for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.core import CallRow, ProgramRow, SchedulingPolicy
from benchmarks.without_model.scheduler import STEP_S, Engine
from parking_load import ACTIONS, SESSIONS, Load

pytestmark = pytest.mark.engine

STRESS = {"policy": "plas", "preemption": "park", "quanta_s": [STEP_S, 2 * STEP_S], "starvation_ratio": 2.0}


class UpsideDown(SchedulingPolicy):
    """First come first served, and the other way round in every other step."""

    reranks = True

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return call.arrived_s if round(now / STEP_S) % 2 else -call.arrived_s


INVERTING = {"preemption": "park", "policy": f"{__name__}:UpsideDown", "running_first": False}

# Tiny engines: never too small for one call of 32 tokens, mostly too small for all that their slots would hold.
ENGINES = st.fixed_dictionaries(
    {
        "overlap": st.booleans(),
        "num_slots": st.integers(1, 4),
        "num_blocks": st.integers(9, 30),
        "spare_states": st.sampled_from((None, 1, 2, 5)),  # of the V2 model runner, beyond the slots
        "max_batch_tokens": st.sampled_from((7, 64)),
        "watermark": st.sampled_from((0.0, 0.1)),
    }
)
# vLLM itself loses a session whose answer ends after it was preempted, so here blocks suffice for all.
ROOMY_ENGINES = ENGINES.map(lambda options: options | {"num_blocks": 200})


def actions(names: Sequence[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 999)), max_size=100)


def play(agentix: dict[str, Any], options: dict[str, Any], what: Sequence[tuple[str, int]]) -> None:
    """Do all of it, then let the engine run until every call is over."""
    load = Load.on(agentix, options)
    for action, pick in what:
        load.act(action, pick)
    load.finish()


@pytest.mark.parametrize("agentix", [STRESS, STRESS | {"running_first": False}, INVERTING], ids=["plas", "entry", "inverting"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(options=ENGINES, what=actions(ACTIONS))
def test_whatever_happens_every_call_ends_once_with_its_own_tokens(
    agentix: dict[str, Any], options: dict[str, Any], what: Sequence[tuple[str, int]]
) -> None:
    play(agentix, options, what)


@pytest.mark.parametrize("agentix", [STRESS, INVERTING], ids=["plas", "inverting"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(options=ROOMY_ENGINES, what=actions(SESSIONS))
def test_streaming_input_sessions_hold_their_slots_and_keep_their_words(
    agentix: dict[str, Any], options: dict[str, Any], what: Sequence[tuple[str, int]]
) -> None:
    play(agentix, options, what)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("spare_states", [None, 2])
def test_answers_are_stock_vllm_s_however_often_calls_are_parked(overlap: bool, spare_states: int | None) -> None:
    """60 calls, a new one every other step, on 3 slots and 23 blocks of 4 tokens."""
    options: dict[str, Any] = {"overlap": overlap, "num_slots": 3, "num_blocks": 24, "max_batch_tokens": 64}
    load = Load.on(INVERTING, options | {"spare_states": spare_states})
    stock = Engine(None, max_model_len=32, **options)
    for pick in range(60):
        load.act("arrive", 37 * pick)
        stock.add(f"r{pick}", *load.pieces[f"r{pick}"][0])
        for _ in range(2):
            load.act("step", 0)
            stock.step()
    load.finish()
    stock.run()
    assert load.engine.answers == stock.answers
    counts = load.engine.scheduler._parking.counts
    assert counts.num_parks > 60
    assert counts.num_evictions > 20
    assert counts.num_resumes > 3
