"""What holds for every policy after every event of every legal history."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import ProcessTable, Scheduler, SchedulerConfig, Slots
from agentix.core.capacity import EngineCapacity
from agentix.core.events import Event, Placed, StepCompleted, from_record, log_line
from histories import History, configs, histories
from ledger import Ledger

MULTI_LEVEL = ["mlfq", "plas", "atlas", "atlas_exact"]
LEARNING = ["gittins", "default"]  # a used-up quantum may lead up as well as down
LEVELLED = [*MULTI_LEVEL, *LEARNING]
UNINTERRUPTED = ["las", "program_fcfs", "pause_resume"]
CAPACITY_TOKENS = 400  # of three programs, each with a context of up to 200 tokens and some room

check = settings(max_examples=150, deadline=None)


def quanta_s(config: SchedulerConfig) -> tuple[float, ...]:
    """Service granted per level, as the paper has it."""
    if config.policy in LEVELLED:
        return (*config.quanta_s, math.inf)
    return config.quanta_s[:1] if config.policy == "round_robin" else (math.inf,)


def play(config: SchedulerConfig, history: History) -> Iterator[tuple[Scheduler, Ledger, Event, list[Placed]]]:
    """Apply the history. Yields after each event, when the ledger has booked the event but not yet the placements."""
    capacity = EngineCapacity(kv_tokens=CAPACITY_TOKENS, num_slots=8, prefill_s_per_token=0.001)
    scheduler, ledger = Scheduler(config, ProcessTable(), capacity=capacity), Ledger()
    for event in history:
        ledger.take(event)
        placed = scheduler.apply(event)
        yield scheduler, ledger, event, placed
        ledger.place(placed)


@check
@given(configs(), histories())
def test_state_stays_consistent(config: SchedulerConfig, history: History) -> None:
    for scheduler, ledger, _, _ in play(config, history):
        scheduler.validate()
        scheduler.table.validate()
        assert set(scheduler.table.rows) == set(ledger.programs)
        assert set(scheduler.table.calls) == set(scheduler.order) == set(ledger.calls)


@check
@given(configs(), histories(), st.integers(0, 6))
def test_order_is_total(config: SchedulerConfig, history: History, num_slots: int) -> None:
    for scheduler, ledger, event, _ in play(config, history):
        scheduler.choose(event.now, Slots(num_slots))
        keys = [scheduler.key(call_id) for call_id in scheduler.order]
        assert all(better < worse for better, worse in pairwise(keys))
        places = {(level, rank, entry) for level, rank, entry, _ in keys}
        assert len(places) == len(ledger.calls)


@check
@given(configs(), histories(), st.integers(0, 6))
def test_no_call_is_lost_or_served_twice(config: SchedulerConfig, history: History, num_slots: int) -> None:
    for scheduler, ledger, event, _ in play(config, history):
        batch = scheduler.choose(event.now, Slots(num_slots))
        waiting, running = set(ledger.waiting), set(ledger.running)
        held = {i for i in waiting if ledger.calls[i].program_id in scheduler.holding.held}
        assert batch.run == tuple(i for i in scheduler.order if i not in held)[:num_slots]
        assert sorted(scheduler.order) == sorted(ledger.calls)
        assert sorted(batch.admit) == sorted(waiting & set(batch.run))
        assert sorted(batch.preempt) == sorted(running - set(batch.run))


@check
@given(configs(UNINTERRUPTED), histories(), st.integers(0, 6))
def test_running_calls_do_not_give_way(config: SchedulerConfig, history: History, num_slots: int) -> None:
    for scheduler, ledger, event, _ in play(config, history):
        batch = scheduler.choose(event.now, Slots(num_slots))
        running = set(ledger.running)
        assert set(scheduler.order[: len(running)]) == running
        assert len(batch.preempt) == max(0, len(running) - num_slots)
        assert not (batch.preempt and batch.admit)


@check
@given(configs(), histories())
def test_an_engine_with_work_never_stands_still(config: SchedulerConfig, history: History) -> None:
    for scheduler, ledger, event, _ in play(config, history):
        assert bool(scheduler.choose(event.now, Slots(1)).run) == bool(ledger.calls)


@check
@given(configs(), histories())
def test_a_choice_asked_for_twice_is_the_same(config: SchedulerConfig, history: History) -> None:
    for scheduler, _, event, _ in play(config, history):
        batch = scheduler.choose(event.now, Slots(3))
        held = scheduler.holding.held
        assert scheduler.choose(event.now, Slots(3)) == batch
        assert scheduler.holding.held == held


@check
@given(configs(["pause_resume"]), histories())
def test_programs_that_are_not_held_fit_the_engine_unless_nothing_would_run(config: SchedulerConfig, history: History) -> None:
    for scheduler, ledger, event, _ in play(config, history):
        scheduler.choose(event.now, Slots(3))
        active = [row for i, row in scheduler.table.rows.items() if row.num_arrived and i not in scheduler.holding.held]
        need_tokens = sum(row.context_tokens + 100 for row in active)
        waiting = {ledger.calls[i].program_id for i in ledger.waiting}
        was_let_go = not ledger.running and len(waiting - scheduler.holding.held) == 1
        assert need_tokens <= CAPACITY_TOKENS or was_let_go


@check
@given(configs(), histories())
def test_a_call_changes_level_for_its_quantum_exactly_when_that_is_used_up(config: SchedulerConfig, history: History) -> None:
    quanta, deeper = quanta_s(config), config.policy in MULTI_LEVEL
    for _, ledger, event, placed in play(config, history):
        used_up = {i for i, call in ledger.calls.items() if call.level >= 0 and call.at_level_s >= quanta[call.level]}
        for p in placed:
            if p.reason == "quantum":
                assert isinstance(event, StepCompleted)
                assert p.call_id in used_up
                assert p.level == ledger.calls[p.call_id].level + deeper or config.policy in LEARNING
        assert used_up <= {p.call_id for p in placed}
        assert [p.call_id for p in placed if p.reason == "arrival"] == [i for i, c in ledger.calls.items() if c.level < 0]


@check
@given(configs(MULTI_LEVEL), histories())
def test_a_starving_call_is_promoted_at_the_next_event_and_no_other_is(config: SchedulerConfig, history: History) -> None:
    beta, by_program = config.starvation_ratio or math.inf, config.policy != "mlfq"
    for _, ledger, event, placed in play(config, history):
        promoted = {p.call_id: p for p in placed if p.reason == "starving"}
        served = event.call_ids if isinstance(event, StepCompleted) else ()
        at_arrival = {p.call_id: p.level for p in placed if p.reason == "arrival"}
        levels = {i: at_arrival.get(i, call.level) for i, call in ledger.calls.items()}
        due = {i for i, level in levels.items() if level > 0 and ledger.starves(i, beta, by_program=by_program)}
        assert promoted.keys() <= due
        assert due - promoted.keys() <= set(ledger.running) - set(served)
        assert all(p.level == 0 for p in promoted.values())


@check
@given(configs(), histories())
def test_the_table_does_not_depend_on_the_policy(config: SchedulerConfig, history: History) -> None:
    """Above all: a promotion, which resets W and T of one call, leaves every row as it was."""
    bare = ProcessTable()
    for scheduler, _, event, _ in play(config, history):
        bare.apply(event)
        assert dict(scheduler.table.rows) == dict(bare.rows)


@check
@given(histories())
def test_rows_hold_the_sums_of_their_calls(history: History) -> None:
    for scheduler, ledger, _, _ in play(SchedulerConfig(), history):
        for program_id, program in ledger.programs.items():
            row = scheduler.table.row(program_id)
            assert (row.service_s, row.waiting_s) == (program.service_s, program.waiting_s)


@check
@given(histories())
def test_attained_service_of_a_row_never_decreases(history: History) -> None:
    table, before = ProcessTable(), dict[str, tuple[float, float]]()
    for event in history:
        table.apply(event)
        after = {i: (row.service_s, row.critical_path_s) for i, row in table.rows.items()}
        for program_id in before.keys() & after.keys():
            assert all(old <= new for old, new in zip(before[program_id], after[program_id], strict=True))
        before = after


@check
@given(configs(["plas"]), histories())
def test_a_plas_call_enters_the_level_whose_range_holds_its_programs_service(config: SchedulerConfig, history: History) -> None:
    upper_bounds_s = [sum(config.quanta_s[: i + 1]) for i in range(len(config.quanta_s))]
    for _, ledger, _, placed in play(config, history):
        for p in placed:
            if p.reason == "arrival":
                service_s = ledger.programs[ledger.calls[p.call_id].program_id].service_s
                assert p.level == sum(bound <= service_s for bound in upper_bounds_s)


@check
@given(configs(), histories())
def test_events_and_decisions_survive_a_trip_through_json(config: SchedulerConfig, history: History) -> None:
    for scheduler, _, event, placed in play(config, history):
        line = json.loads(log_line(event, placed))
        assert from_record(line["event"]) == event
        assert [from_record(record) for record in line["decisions"]] == placed
        batch = scheduler.choose(event.now, Slots(2))
        (record,) = json.loads(log_line(event, [batch]))["decisions"]
        assert from_record(record) == batch


def decision_log(config: SchedulerConfig, history: History) -> list[str]:
    lines = []
    for scheduler, _, event, placed in play(config, history):
        lines += [log_line(event, placed), log_line(event, [scheduler.choose(event.now, Slots(2))])]
    return lines


@check
@given(configs(), histories())
def test_a_replayed_log_gives_the_same_decisions(config: SchedulerConfig, history: History) -> None:
    log = decision_log(config, history)
    replayed = [from_record(json.loads(line)["event"]) for line in log[::2]]
    assert decision_log(config, replayed) == log
