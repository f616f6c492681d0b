"""Whole simulations of random programs on engines that run short and fail: what must hold whatever the settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings

from agentix.core import ProcessTable, Scheduler
from agentix.core.events import CallAborted, CallArrived, CallFinished, Event, ProgramEnded, ProgramStarted, StepCompleted
from agentix.metrics import Status
from agentix.sim.engine import ModelledEngine
from agentix.sim.simulation import Simulation
from sim_cases import Case, Outcome, RoundingCost, Whereabouts, cases, play

OVER = (CallFinished, CallAborted)


# --- steps played as one are steps played one by one


def decisions(outcome: Outcome) -> list[tuple[Any, ...]]:
    """Every event but steps on which nothing was decided, with engine, time and decisions."""
    where = Whereabouts()
    told = []
    for event, placed in outcome.log:
        engine_id = where.engine_of(event)
        if isinstance(event, StepCompleted) and not placed:
            continue
        subject = getattr(event, "call_id", "")
        told.append((type(event).__name__, engine_id, subject, pytest.approx(event.now, abs=1e-6), placed))
    return told


def assert_same_outcome(case: Case) -> None:
    one_by_one, as_one = (play(case.with_engine(max_bulk_steps=n)) for n in (1, 1024))
    assert decisions(as_one) == decisions(one_by_one)
    assert as_one.counts == {engine: pytest.approx(counts, abs=1e-6) for engine, counts in one_by_one.counts.items()}
    for record, other in zip(as_one.records, one_by_one.records, strict=True):
        for call, same in zip(record.calls, other.calls, strict=True):
            assert astuple(call) == tuple(
                pytest.approx(value, abs=1e-6) if isinstance(value, float) else value for value in astuple(same)
            )


def is_exact(case: Case) -> bool:
    """Whether nobody looks at what a call has had that runs on another engine, which is told when its flight is over."""
    return case.num_engines == 1 or case.engine.scheduler.policy not in ("gittins", "default")


@settings(max_examples=50, deadline=None)
@given(case=cases().filter(is_exact))
def test_steps_played_as_one_come_to_the_same_as_one_by_one(case: Case) -> None:
    assert_same_outcome(case)


@settings(max_examples=15, deadline=None)
@given(case=cases(costs=(RoundingCost(),)).filter(is_exact))
def test_also_where_sums_of_times_are_rounded(case: Case) -> None:
    assert_same_outcome(case)


# --- nothing is lost


@contextmanager
def watched_engines(after_begin: Any = None, before_begin: Any = None) -> Iterator[None]:
    """Every engine is checked whenever it has begun or ended steps. The hooks are told engine, time and answer of `begin`."""
    begin, end = ModelledEngine.begin, ModelledEngine.end

    def checked_begin(engine: ModelledEngine, now: float) -> float | None:
        noted = before_begin(engine) if before_begin is not None else None
        end_s = begin(engine, now)
        engine.validate()
        if after_begin is not None:
            after_begin(engine, now, end_s, noted)
        return end_s

    def checked_end(engine: ModelledEngine, now: float) -> Any:
        finished = end(engine, now)
        engine.validate()
        return finished

    with patch.object(ModelledEngine, "begin", checked_begin), patch.object(ModelledEngine, "end", checked_end):
        yield


def validate(simulation: Simulation, event: Event, placed: Sequence[Any]) -> None:
    """Every invariant that holds at every event."""
    del event, placed
    simulation.table.validate()
    for engine in simulation.engines.values():
        engine.core.validate()
        engine.memory.cache.validate()
        assert (
            sum(simulation.table.call(c).running for c in engine.calls if c in simulation.table.calls)
            <= engine.config.max_num_seqs
        )


@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_every_call_is_served_to_its_end_and_gives_everything_back(case: Case) -> None:
    with watched_engines():
        outcome = play(case, validate)
    for program, record in zip(case.programs, outcome.records, strict=True):
        assert record.status == Status.OK
        ends_s = {call.call_id: call.end_s or 0.0 for call in record.calls}
        for call, done in zip(program.calls, record.calls, strict=True):
            assert done.output_tokens == call.max_tokens
            assert done.ready_s == max(
                [record.arrival_s, *(ends_s[p] + (program.call(p).tool_gap_s or 0.0) for p in call.parents)]
            )
            assert done.ready_s < (done.first_token_s or 0.0) <= ends_s[call.call_id]
    assert dict(outcome.simulation.table.rows) == {}
    for engine in outcome.engines:
        assert engine.calls == {}
    for engine in outcome.simulation.engines.values():
        assert engine.memory.cache.num_free_blocks == case.engine.num_blocks


@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_time_never_goes_back_and_every_call_ends_in_one_way(case: Case) -> None:
    log = play(case).log
    moments = [event.now for event, _ in log]
    assert moments == sorted(moments)
    sent = Counter(event.call_id for event, _ in log if isinstance(event, CallArrived))
    over = Counter(event.call_id for event, _ in log if isinstance(event, OVER))
    assert sent == over
    assert set(over.values()) == {1}
    # A call that is sent again has a prime on its id; in the end one of each is finished.
    finished = [event.call_id.rstrip("'") for event, _ in log if isinstance(event, CallFinished)]
    assert sorted(finished) == sorted(f"{i}/{call.call_id}" for i, p in enumerate(case.programs) for call in p.calls)


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_tokens_are_computed_found_or_computed_again(case: Case) -> None:
    """Of prompt and answer together all tokens but the last one are computed, or found when the call first starts.

    What is dropped is computed again, unless the prefix cache gives it back; what was swapped never is.
    """
    outcome = play(replace(case, control=()))
    counts = [engine.counts for engine in outcome.engines]
    calls = [call for program in case.programs for call in program.calls]
    computed, cached = sum(c.computed_tokens for c in counts), sum(c.cached_tokens for c in counts)
    again = computed + cached - sum(call.prompt_tokens + call.max_tokens - 1 for call in calls)
    recomputed = sum(c.recomputed_tokens for c in counts)
    assert sum(c.prompt_tokens for c in counts) == sum(call.prompt_tokens for call in calls)
    if case.engine.preemption == "swap":
        assert again == recomputed == 0
    elif case.engine.prefix_cache:
        assert 0 <= again <= recomputed
    else:
        assert (again, cached) == (recomputed, 0)


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_seconds_are_service_swaps_or_choices(case: Case) -> None:
    outcome = play(replace(case, control=()))
    counts = [engine.counts for engine in outcome.engines]
    calls = [call for record in outcome.records for call in record.calls]
    steps = [event for event, _ in outcome.log if isinstance(event, StepCompleted)]
    assert sum(c.busy_s for c in counts) == sum(step.duration_s for step in steps)
    assert sum(call.service_s or 0.0 for call in calls) == sum(step.duration_s * len(step.call_ids) for step in steps)
    assert sum(call.swap_s or 0.0 for call in calls) == sum(c.swap_s for c in counts)
    assert sum(call.num_preemptions or 0 for call in calls) == sum(c.num_preemptions for c in counts)
    for c in counts:
        assert c.scheduling_s == c.num_choices * case.engine.scheduling_s
        assert c.busy_s + c.swap_s + c.scheduling_s <= outcome.simulation.now
        assert c.num_swaps == 0 or case.engine.preemption == "swap"


# --- an engine works as long as it can


def first_waiting(engine: ModelledEngine) -> str | None:
    """The first call in order that waits and may start."""
    rows = (engine.core.table.call(call_id) for call_id in engine.core.order)
    return next((row.call_id for row in rows if not row.running and engine.core.holding.passes(row)), None)


def blocks_lacking(engine: ModelledEngine, call_id: str) -> int:
    """Blocks that the call needs for its next step beyond those that it holds or may share."""
    call, cache = engine.calls[call_id], engine.memory.cache
    if engine.memory.holds(call):
        return max(0, cache.blocks_for(call.num_known) - cache.held_blocks(call_id))
    return cache.blocks_needed(call.prompt, call.num_known)


def running_calls(engine: ModelledEngine) -> list[str]:
    return [call_id for call_id in engine.calls if engine.core.table.call(call_id).running]


def what_is_held(engine: ModelledEngine) -> Any:
    return running_calls(engine), engine.counts.num_evictions, engine.memory.next_expiry_s


def assert_full(engine: ModelledEngine, now: float, end_s: float | None, held_before: Any) -> None:
    """Nobody waits for a slot and blocks that are free. What others left or shared in this choice counts in the next."""
    del now
    if end_s is None:
        assert engine.calls == {}
        return
    running, first = running_calls(engine), first_waiting(engine)
    if first is None or len(running) == engine.config.max_num_seqs or what_is_held(engine) != held_before:
        return
    assert sum(blocks_lacking(engine, call_id) for call_id in (first, *running)) > engine.memory.cache.num_free_blocks


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_no_call_waits_for_what_is_free(case: Case) -> None:
    """The batch is chosen before every step here; otherwise newcomers wait for the next choice."""
    with watched_engines(after_begin=assert_full, before_begin=what_is_held):
        play(case.with_engine(steps_per_schedule=1))


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_an_engine_with_calls_never_stands_still(case: Case) -> None:
    def assert_busy(engine: ModelledEngine, now: float, end_s: float | None, noted: None) -> None:
        del now, noted
        assert end_s is not None or engine.calls == {}

    with watched_engines(after_begin=assert_busy):
        play(case)


# --- what the core decides in a simulation it decides anywhere


@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_the_core_replays_a_log_of_several_engines_to_the_same_decisions(case: Case) -> None:
    """Calls that move and engines that fail included. Total work, which only one policy asks for, places nobody."""
    table, where = ProcessTable(), Whereabouts()
    for index, program in enumerate(case.programs):
        started_s = case.arrivals_s[index]
        table.apply(ProgramStarted(now=started_s, program_id=f"{index}:{program.program_id}", total_work_s=0.0))
    schedulers: dict[str, Scheduler] = {}
    for event, placed in play(case).log:
        if isinstance(event, ProgramEnded):
            table.apply(event)
            continue
        engine_id = where.engine_of(event)
        if engine_id not in schedulers:
            schedulers[engine_id] = Scheduler(case.engine.scheduler, table)
        assert schedulers[engine_id].apply(event) == placed
    assert not table.calls
