"""Parking on vLLM's real scheduler, case by case: what can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentix.core import ProcessTable, Scheduler
from agentix.core.events import from_record
from agentix.engine.settings import PluginSettings
from benchmarks.without_model.runner import STOP_TOKEN, answer
from benchmarks.without_model.scheduler import STEP_S, Engine, PauseState
from parking_load import Load
from parking_rules import validate

pytestmark = pytest.mark.engine

QUANTUM = {
    "policy": "plas",
    "preemption": "park",
    "quanta_s": [2 * STEP_S],
    "starvation_ratio": None,
}  # two steps, then the last level


def engine_of(*, num_slots: int = 1, num_blocks: int = 40, agentix: dict[str, Any] | None = None, **options: Any) -> Engine:
    """One step at a time; blocks of four tokens."""
    return Engine(agentix or QUANTUM, overlap=False, num_slots=num_slots, num_blocks=num_blocks, max_model_len=32, **options)


def running(engine: Engine) -> list[str]:
    return [request.request_id for request in engine.scheduler.running]


def steps(engine: Engine, number: int) -> None:
    for _ in range(number):
        engine.step()
        validate(engine)


def prompt_of(tokens: int, first: int = 1, max_tokens: int = 12) -> list[int]:
    """A prompt of so many tokens after which the model does not stop early."""
    for last in range(1, 40):
        prompt = [first] * (tokens - 1) + [last]
        if STOP_TOKEN not in answer(prompt, max_tokens):
            return prompt
    raise AssertionError("no such prompt")


def test_a_parked_call_goes_on_where_it_was_and_computes_nothing_twice() -> None:
    """One slot. `a` sinks after two steps; `b` arrives above it, has its quantum, and `a` (first in its level) comes back."""
    engine = engine_of()
    engine.add("a", prompt_of(5), 8)
    steps(engine, 3)
    engine.add("b", prompt_of(6, first=2), 8)
    order = []
    for _ in range(14):
        engine.step()
        order += running(engine)
    # b yields its first token with the prompt, and one more; then both are in the last level, where a came first.
    assert order[:2] == ["b", "b"]
    engine.run()
    counts = engine.scheduler._parking.counts
    assert (counts.num_evictions, counts.evicted_tokens) == (0, 0)
    assert counts.num_parks == counts.num_resumes > 0
    # Of an answer, the last token is never computed on.
    assert engine.num_tokens_of == {"a": 5 + 8 - 1, "b": 6 + 8 - 1}
    assert engine.answers == {"a": answer(prompt_of(5), 8), "b": answer(prompt_of(6, first=2), 8)}


def test_the_worst_parked_call_is_evicted_when_a_better_one_needs_its_blocks() -> None:
    """Eight blocks, one slot: `a` holds 4 of them, `b` needs 6."""
    engine = engine_of(num_blocks=9)
    engine.add("a", prompt_of(12), 8)
    steps(engine, 3)
    engine.add("b", prompt_of(21, first=2), 2)
    steps(engine, 1)
    assert running(engine) == ["b"]
    counts = engine.scheduler._parking.counts
    assert (counts.num_parks, counts.num_evictions, counts.evicted_tokens) == (1, 1, 14)
    engine.run()
    assert engine.answers["a"] == answer(prompt_of(12), 8)


def test_a_call_that_waits_for_blocks_in_vain_stops_nobody() -> None:
    """An idle session holds 5 of 8 blocks, which nobody can take. `big` needs 4, so `small` goes on."""
    engine = engine_of(num_slots=3, num_blocks=9)
    engine.add("session", prompt_of(18, max_tokens=1), 1, resumable=True)
    engine.add("small", prompt_of(3, first=2), 8)
    steps(engine, 3)  # small is in the last level now
    engine.add("big", prompt_of(13, first=3), 2)
    steps(engine, 2)
    assert running(engine) == ["small"]
    engine.add("session", [1], 1)  # closed
    steps(engine, 1)
    assert "big" in running(engine)
    engine.run()
    assert engine.answers["big"] == answer(prompt_of(13, first=3), 2)


def test_a_call_whose_grammar_is_compiled_meanwhile_is_admitted() -> None:
    """No event tells of the grammar; the slot is not given away, and two others hold the rest."""
    engine = engine_of(num_slots=2)
    request = engine.make("grammar", prompt_of(4), 3)
    request.structured_output_request = SimpleNamespace(grammar=None)
    request.status = type(request.status).WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    engine.scheduler.add_request(request)
    for number in range(3):
        engine.add(f"r{number}", prompt_of(4, first=2 + number), 12)
    steps(engine, 4)
    assert "grammar" not in running(engine)
    assert len(running(engine)) == 2
    request.structured_output_request.grammar = object()
    steps(engine, 1)
    assert "grammar" in running(engine)
    engine.run()
    assert engine.answers["grammar"] == answer(prompt_of(4), 3)


def test_a_pause_that_lets_calls_finish_finishes_parked_ones_too() -> None:
    engine = engine_of()
    engine.add("a", prompt_of(4), 6)
    steps(engine, 3)
    engine.add("b", prompt_of(4, first=2), 6)
    steps(engine, 1)
    assert list(engine.scheduler._parking.parked) == ["a"]
    engine.add("c", prompt_of(4, first=3), 6)
    engine.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    assert engine.scheduler.get_num_unfinished_requests() == 2
    engine.run()
    assert sorted(engine.answers) == ["a", "b"]
    engine.scheduler.set_pause_state(PauseState.UNPAUSED)
    engine.run()
    assert sorted(engine.answers) == ["a", "b", "c"]


def test_calls_of_too_many_adapters_never_run_together() -> None:
    """vLLM itself fails (an assertion) if a step serves more adapters than fit."""
    load = Load(engine_of(num_slots=3, agentix=QUANTUM | {"quanta_s": [STEP_S]}))
    load.engine.scheduler.lora_config = SimpleNamespace(max_loras=2)
    for number in range(24):
        request = load.engine.make(f"r{number}", prompt_of(4, first=1 + number % 5), 1 + number % 9)
        request.lora_request = SimpleNamespace(lora_int_id=1 + number % 4, lora_name=f"adapter-{number % 4}", lora_path="")
        load.engine.scheduler.add_request(request)
        steps(load.engine, 2)
        assert len({r.lora_request.lora_int_id for r in load.engine.scheduler.running}) <= 2
    load.engine.run()
    assert load.engine.scheduler._parking.counts.num_resumes > 0
    assert all(len(load.engine.endings[f"r{number}"]) == 1 for number in range(24))


def test_blocks_that_a_transfer_still_needs_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(num_blocks=9)
    engine.add("a", prompt_of(12), 8)
    steps(engine, 3)
    may_be_freed = False
    monkeypatch.setattr(engine.scheduler, "_request_blocks_can_be_freed", lambda _: may_be_freed)
    engine.add("b", prompt_of(21, first=2), 2)
    steps(engine, 2)
    assert list(engine.scheduler._parking.parked) == ["a"]
    may_be_freed = True
    steps(engine, 1)
    assert running(engine) == ["b"]
    engine.run()
    assert engine.answers["a"] == answer(prompt_of(12), 8)


@pytest.mark.parametrize(("num_states", "can_park"), [(None, True), (2, False), (3, True)])
def test_a_model_runner_without_a_spare_state_only_orders_the_queue(num_states: int | None, can_park: bool) -> None:
    engine = engine_of(num_slots=2, num_states=num_states)
    assert (engine.scheduler._parking is not None) == can_park
    for number in range(6):
        engine.add(f"r{number}", prompt_of(4, first=1 + number), 6)
        engine.step()
    engine.run()
    assert all(engine.answers[f"r{n}"] == answer(prompt_of(4, first=1 + n), 6) for n in range(6))


def test_the_core_replays_the_decisions_of_an_engine_that_parks(tmp_path: Path) -> None:
    agentix = {"policy": "plas", "preemption": "park", "quanta_s": [STEP_S, 2 * STEP_S], "starvation_ratio": 2.0}
    log = tmp_path / "log"
    load = Load.on(
        agentix | {"decision_log": str(log)},
        {"num_slots": 2, "num_blocks": 16, "max_batch_tokens": 64, "spare_states": None},
    )
    for pick in range(40):
        load.act("arrive", 37 * pick)
        load.act("step", 0)
        if pick % 7 == 0:
            load.act("abort", pick)
    load.finish()
    load.engine.scheduler._log.close()
    core = Scheduler(PluginSettings.from_mapping(agentix).scheduler, ProcessTable())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        assert core.apply(from_record(line["event"])) == [from_record(decision) for decision in line["decisions"]]
        core.validate()
    kinds = {line["event"]["type"] for line in lines}
    assert kinds == {
        "CallArrived",
        "CallStarted",
        "CallPreempted",
        "StepCompleted",
        "CallFinished",
        "CallAborted",
        "ProgramEnded",
    }
    assert {d["reason"] for line in lines for d in line["decisions"]} == {"arrival", "quantum", "starving"}
    assert not core.order
