"""Parking on vLLM's real scheduler, without a model: nothing is lost, nothing computed twice, nobody parked for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.core import CallRow, ProgramRow, SchedulingPolicy
from benchmarks.without_model.runner import answer
from benchmarks.without_model.scheduler import STEP_S, Engine, PauseState
from parking_rules import Watched, check_work_conserving, validate

pytestmark = pytest.mark.engine

STRESS = {"preemption": "park", "quanta_s": [STEP_S, 2 * STEP_S], "starvation_ratio": 2.0}
ACTIONS = ("arrive", "arrive", "arrive", "step", "step", "step", "step", "abort", "hold", "freeze", "go", "forget", "reset")


class UpsideDown(SchedulingPolicy):
    """First come first served, and the other way round in every other step."""

    reranks = True

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return call.arrived_s if round(now / STEP_S) % 2 else -call.arrived_s


INVERTING = {"preemption": "park", "policy": f"{__name__}:UpsideDown", "running_first": False}


class Load:
    """Requests as they come, and what each must be answered."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.expected: dict[str, list[int]] = {}
        self.num_gone = 0  # calls that ended while they were parked

    def arrive(self, pick: int) -> None:
        """Prompts share beginnings; answers take up to 20 tokens; five programs and some calls of none."""
        prompt = [pick % 3] * (pick % 11) + [1 + pick % 7]
        request_id, max_tokens = f"r{len(self.expected)}", 1 + pick % 20
        self.engine.add(request_id, prompt, max_tokens, (None, "p", "q", "s", "t")[pick % 5])
        self.expected[request_id] = answer(prompt, max_tokens)

    def act(self, action: str, pick: int) -> None:
        scheduler = self.engine.scheduler
        parked = set(scheduler._parking.parked)
        live = list(scheduler.requests)
        match action:
            case "arrive":
                self.arrive(pick)
            case "step":
                self.step()
                return
            case "abort" if live:
                self.engine.abort(live[pick % len(live)])
                self.num_gone += len(parked - scheduler._parking.parked.keys())
            case "hold":
                scheduler.set_pause_state(PauseState.PAUSED_NEW)
            case "freeze":
                scheduler.set_pause_state(PauseState.PAUSED_ALL)
            case "go":
                scheduler.set_pause_state(PauseState.UNPAUSED)
            case "forget":
                scheduler.reset_prefix_cache()
            case "reset" if pick % 3 == 0:
                assert scheduler.reset_prefix_cache(reset_running_requests=True)
        validate(self.engine)

    def step(self) -> None:
        """One turn of the engine's loop; rules are checked between its two halves."""
        engine, scheduler = self.engine, self.engine.scheduler
        num_preempted = scheduler.num_preempted
        depth, engine.depth = engine.depth, 9  # schedule alone
        output = engine.step() if scheduler.has_requests() else None
        engine.depth = depth
        if output is not None:
            validate(engine)
            if scheduler.pause_state == PauseState.UNPAUSED:
                check_work_conserving(engine, output, num_preempted)
        if output is None or len(engine.in_flight) >= depth or not (output.num_scheduled_tokens or scheduler.has_requests()):
            parked = set(scheduler._parking.parked)
            engine.take_in()
            self.num_gone += len(parked - scheduler._parking.parked.keys())
            validate(engine)

    def finish(self) -> None:
        """To the end; then every call must have ended in one way, with its own tokens, and nothing be left behind."""
        engine, scheduler = self.engine, self.engine.scheduler
        scheduler.set_pause_state(PauseState.UNPAUSED)
        for _ in range(3000):
            if not scheduler.has_requests() and not engine.in_flight:
                break
            self.step()
        assert not scheduler.requests, f"never finished: {list(scheduler.requests)}"
        for request_id, expected in self.expected.items():
            [ending] = engine.endings[request_id]
            answered = engine.answers[request_id]
            assert answered == (expected[: len(answered)] if ending == "abort" else expected), (request_id, ending)
        counts = scheduler._parking.counts
        assert counts.num_parks == counts.num_resumes + counts.num_evictions + self.num_gone
        pool = scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == len(pool.blocks) - 1


def engines(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Tiny engines: never too small for one call of 32 tokens, mostly too small for all that their slots would hold."""
    options = {
        "overlap": st.booleans(),
        "num_slots": st.integers(1, 4),
        "num_blocks": st.integers(9, 30),
        "spare_states": st.sampled_from((None, 1, 2, 5)),
        "max_batch_tokens": st.sampled_from((7, 64)),
        "watermark": st.sampled_from((0.0, 0.1)),
    }
    return st.fixed_dictionaries(options | {name: st.just(value) for name, value in fixed.items()})


def make_engine(agentix: dict[str, Any], options: dict[str, Any]) -> Engine:
    options = dict(options)
    spare = options.pop("spare_states")
    num_states = None if spare is None else options["num_slots"] + spare
    return Engine(agentix, **options, num_states=num_states, max_model_len=32, scheduler_cls=Watched)


@pytest.mark.parametrize("agentix", [STRESS, STRESS | {"running_first": False}, INVERTING], ids=["plas", "entry", "inverting"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(options=engines(), actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 999)), max_size=120))
def test_whatever_happens_every_call_ends_once_with_its_own_tokens(
    agentix: dict[str, Any], options: dict[str, Any], actions: Sequence[tuple[str, int]]
) -> None:
    load = Load(make_engine(agentix, options))
    for action, pick in actions:
        load.act(action, pick)
    load.finish()
