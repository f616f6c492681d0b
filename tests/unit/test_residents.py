"""Whose context stays: the medium-term decision, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentix.core.capacity import EngineCapacity
from agentix.core.residents import Candidate, choose_residents

CAPACITY = EngineCapacity(kv_tokens=100, num_slots=8, prefill_s_per_token=0.1)


def program(program_id: str, need_tokens: int, index_s: float, **others: Any) -> Candidate:
    """A waiting outsider, unless said otherwise."""
    known = {"context_tokens": need_tokens, "reserve_tokens": need_tokens, "started_s": 0.0}
    state = {"is_resident": False, "is_running": False, "is_waiting": True}
    return Candidate(program_id=program_id, need_tokens=need_tokens, index_s=index_s, **{**known, **state, **others})


def resident(program_id: str, need_tokens: int, index_s: float, **others: Any) -> Candidate:
    return program(program_id, need_tokens, index_s, is_resident=True, **others)


def test_free_room_goes_to_the_best_that_fit() -> None:
    programs = [program("c", 60, 3.0), program("a", 50, 1.0), program("b", 40, 2.0)]
    assert choose_residents(programs, CAPACITY) == {"c"}  # a and b take 90


def test_an_older_program_goes_before_its_equal() -> None:
    programs = [program("young", 60, 1.0, started_s=5.0), program("old", 60, 1.0, started_s=4.0)]
    assert choose_residents(programs, CAPACITY) == {"young"}


def test_a_newcomer_must_be_better_by_what_the_move_costs_everybody() -> None:
    """Computing 80 tokens again at 0.1 s each holds up two programs: 16 s."""
    for better_by_s, loser in ((15.9, "new"), (16.1, "in")):
        programs = [resident("in", 80, 20.0), program("new", 80, 20.0 - better_by_s)]
        assert choose_residents(programs, CAPACITY) == {loser}


def test_small_ones_come_in_past_one_whose_turn_has_come_and_larger_ones_do_not() -> None:
    """8 slots full of programs of 3 tokens take a quarter of the cache: what they may, as 75 still fit beside."""
    programs = [resident("in", 45, 1.0, is_running=True), program("first", 50, 0.0, started_s=-1.0, reserve_tokens=60)]
    past = [program(name, need_tokens, 0.0) for name, need_tokens in (("small", 3), ("larger", 4))]
    assert choose_residents([*programs, *past], CAPACITY) == {"first", "larger"}


def test_nobody_comes_in_past_one_that_needs_nearly_all() -> None:
    programs = [resident("in", 25, 1.0, is_running=True), program("first", 80, 0.0, started_s=-1.0), program("small", 3, 0.0)]
    assert choose_residents(programs, CAPACITY) == {"first", "small"}


def test_a_small_one_whose_turn_has_come_leaves_less_to_grow_into() -> None:
    """A quarter of the cache or 16 times its own need, whichever is less: 100 - 83 tokens are enough for one of 1."""
    for in_tokens, held in ((83, set()), (84, {"small"})):
        programs = [resident("in", in_tokens, 1.0, is_running=True, reserve_tokens=100), program("small", 1, 0.0)]
        assert choose_residents(programs, CAPACITY) == held


def test_where_contexts_cost_nothing_the_better_one_is_in() -> None:
    free = EngineCapacity(kv_tokens=100, num_slots=8)
    assert choose_residents([resident("in", 80, 2.0), program("new", 80, 1.9)], free) == {"in"}
    assert choose_residents([resident("in", 80, 2.0), program("new", 80, 2.0)], free) == {"new"}


def test_who_runs_keeps_its_place() -> None:
    programs = [resident("in", 80, 1000.0, is_running=True), program("new", 80, 0.0)]
    assert choose_residents(programs, CAPACITY) == {"new"}


def test_who_has_no_call_asks_for_no_place() -> None:
    assert choose_residents([program("away", 10, 0.0, is_waiting=False)], CAPACITY) == {"away"}


def test_no_more_lose_their_places_than_the_newcomer_needs() -> None:
    programs = [resident("good", 30, 10.0), resident("bad", 30, 900.0), resident("worse", 30, 1000.0), program("new", 40, 0.0)]
    assert choose_residents(programs, CAPACITY) == {"worse"}


def test_a_program_whose_turn_has_come_asks_for_what_it_needs_now_and_a_quarter_of_the_cache() -> None:
    for taken, held in ((45, set()), (46, {"due"})):
        programs = [resident("in", taken, 1.0, is_running=True), program("due", 30, 0.0, reserve_tokens=70)]
        assert choose_residents(programs, CAPACITY) == held
    later = [resident("in", 45, 1.0, is_running=True), program("later", 30, 0.1, reserve_tokens=70)]
    assert choose_residents(later, CAPACITY) == {"later"}


def test_nobody_comes_in_past_a_program_whose_turn_has_come() -> None:
    small, runs = program("small", 10, 0.0, started_s=9.0), resident("in", 40, 1.0, is_running=True)
    assert choose_residents([runs, small, program("large", 90, 0.0)], CAPACITY) == {"small", "large"}
    assert choose_residents([runs, small, program("large", 90, 0.1)], CAPACITY) == {"large"}


def test_the_largest_context_gets_the_cache_to_itself() -> None:
    assert choose_residents([program("large", 99, 0.0, reserve_tokens=100)], CAPACITY) == frozenset()
    assert choose_residents([resident("in", 2, 0.0, is_running=True), program("large", 99, 0.0)], CAPACITY) == {"large"}


def test_while_a_slot_is_idle_a_busy_tool_s_program_lends_its_place_if_its_context_is_computed_sooner() -> None:
    """80 tokens at 0.1 s hold up the program itself and the one that runs: 16 s."""
    runs = resident("runs", 10, 1.0, is_running=True)
    for gap_s, loser in ((16.1, "away"), (15.9, "new")):
        away = resident("away", 80, 1.0, is_waiting=False, gap_s=gap_s)
        assert choose_residents([runs, away, program("new", 80, 50.0)], CAPACITY) == {loser}
    full = [resident(f"r{n}", 1, 1.0, is_running=True) for n in range(8)]
    away = resident("away", 80, 1.0, is_waiting=False, gap_s=1000.0)
    assert choose_residents([*full, away, program("new", 80, 50.0)], CAPACITY) == {"new"}


def test_residents_that_have_outgrown_the_cache_leave_idle_and_small_ones_first() -> None:
    programs = [
        resident("large", 60, 1.0),
        resident("small", 20, 1.0),
        resident("idle", 30, 1.0, is_waiting=False),
        resident("runs", 15, 1.0, is_running=True),
    ]
    assert choose_residents(programs, CAPACITY) == {"idle"}  # 95 are left
    programs[3] = resident("runs", 25, 1.0, is_running=True)
    assert choose_residents(programs, CAPACITY) == {"idle", "small"}  # 105, then 85


def test_a_small_one_may_pass_a_large_one_that_does_not_fit() -> None:
    programs = [resident("in", 80, 1.0), program("large", 90, 2.0), program("small", 15, 3.0)]
    assert choose_residents(programs, CAPACITY) == {"large"}


def test_a_newcomer_gets_no_room_that_residents_will_grow_into() -> None:
    grows = resident("grows", 60, 1.0, reserve_tokens=80)
    assert choose_residents([grows, program("new", 30, 0.5, reserve_tokens=30)], CAPACITY) == {"new"}
    assert choose_residents([grows, program("new", 20, 0.5, reserve_tokens=20)], CAPACITY) == set()


def test_residents_stay_until_what_they_need_now_no_longer_fits() -> None:
    programs = [resident(name, 45, 1.0, reserve_tokens=90) for name in "ab"]
    assert choose_residents(programs, CAPACITY) == set()


# Whether it is in, runs, has calls, and for how long its tool is busy yet.
states = st.one_of(
    st.sampled_from([(False, False, False, 0.0), (False, False, True, 0.0), (True, False, True, 0.0), (True, True, True, 0.0)]),
    st.tuples(st.just(True), st.just(False), st.just(False), st.floats(0, 1e4)),
)
candidates = st.lists(
    st.builds(
        lambda state, grows_tokens, **known: Candidate(
            reserve_tokens=known["need_tokens"] + grows_tokens,
            **dict(zip(("is_resident", "is_running", "is_waiting", "gap_s"), state, strict=True)),
            **known,
        ),
        state=states,
        grows_tokens=st.integers(0, 30),
        program_id=st.uuids().map(str),
        index_s=st.just(0.0) | st.floats(0, 1e4),
        context_tokens=st.integers(0, 60),
        need_tokens=st.integers(1, 70),
        started_s=st.floats(0, 100),
    ),
    max_size=30,
)


@given(candidates)
def test_places_never_exceed_the_cache_but_for_those_that_run(programs: list[Candidate]) -> None:
    outside = choose_residents(programs, CAPACITY)
    inside = [p for p in programs if p.program_id not in outside]
    stuck = [p for p in inside if p.is_resident and p.is_running]
    assert sum(p.need_tokens for p in inside) <= max(CAPACITY.kv_tokens, sum(p.need_tokens for p in stuck))
    assert all(p in inside for p in programs if p.is_resident and p.is_running)


@given(candidates)
def test_the_answer_stands(programs: list[Candidate]) -> None:
    """Asked again when nothing has changed but that the answer is what is so, the answer is the same."""
    outside = choose_residents(programs, CAPACITY)
    again = [replace(p, is_resident=p.program_id not in outside) for p in programs]
    assert choose_residents(again, CAPACITY) == outside
