"""Recorded calls to programs: parents, gaps, ids and times, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.record.calls import RecordedCall, RecordError, read_call
from agentix.record.programs import make_programs
from agentix.workload import Program, check_program, load_programs, save_programs
from recorded_calls import message, recorded


def parents(program: Program) -> dict[str, tuple[str, ...]]:
    return {call.call_id: call.parents for call in program.calls}


def gaps_s(program: Program) -> dict[str, float | None]:
    return {call.call_id: call.tool_gap_s for call in program.calls}


def test_nothing_recorded_is_no_program() -> None:
    assert make_programs([]) == ()
    assert make_programs([recorded("c", 0.0, 1.0, outcome="refused")]) == ()


def test_calls_that_name_no_parents_wait_for_the_one_that_was_over_last() -> None:
    (program,) = make_programs([recorded("b", 13.0, 14.0), recorded("a", 10.0, 12.0)])
    assert (program.program_id, program.workload, program.arrival_s) == ("p", "recorded", 0.0)
    assert parents(program) == {"a": (), "b": ("a",)}
    assert gaps_s(program) == {"a": 1.0, "b": None}
    assert [call.arrival_s for call in program.calls] == [0.0, 3.0]
    assert [(call.prompt_tokens, call.output_tokens, call.output_estimated) for call in program.calls] == [(10, 2, False)] * 2


def test_the_own_thread_goes_before_what_was_over_later() -> None:
    calls = [
        recorded("a", 0.0, 1.0, thread_id="t"),
        recorded("b", 0.5, 2.0, thread_id="u"),
        recorded("c", 3.0, 4.0, thread_id="t"),
        recorded("d", 5.0, 6.0, thread_id="v"),
    ]
    assert parents(make_programs(calls)[0]) == {"a": (), "b": (), "c": ("a",), "d": ("c",)}


def test_a_gap_begins_when_all_parents_are_over_and_ends_with_the_earliest_child() -> None:
    calls = [
        recorded("a", 0.0, 1.0, parents=()),
        recorded("b", 1.5, 2.0, parents=("a",)),
        recorded("c", 1.25, 5.0, parents=("a",)),
        recorded("d", 5.5, 6.0, parents=("b", "c", "b")),
    ]
    (program,) = make_programs(calls)
    assert parents(program) == {"a": (), "c": ("a",), "b": ("a",), "d": ("b", "c")}
    assert gaps_s(program) == {"a": 0.25, "b": 0.5, "c": 0.5, "d": None}


def test_a_client_that_says_there_are_no_parents_is_believed() -> None:
    (program,) = make_programs([recorded("a", 0.0, 1.0), recorded("b", 2.0, 3.0, parents=())])
    assert parents(program) == {"a": (), "b": ()}


def test_an_id_that_is_used_again_means_the_latest_call_of_that_name() -> None:
    calls = [
        recorded("x", 0.0, 1.0),
        recorded("x", 2.0, 3.0, parents=("x",)),
        recorded("y", 4.0, 5.0, parents=("x",)),
    ]
    assert parents(make_programs(calls)[0]) == {"x": (), "x#2": ("x",), "y": ("x#2",)}


def test_what_did_not_end_well_is_left_out_and_nobodys_parent() -> None:
    calls = [
        recorded("a", 0.0, 1.0),
        recorded("b", 2.0, 3.0, parents=("a",), outcome="disconnected"),
        recorded("c", 4.0, 5.0, parents=("b",)),
    ]
    (program,) = make_programs(calls)
    assert parents(program) == {"a": (), "c": ("a",)}
    assert gaps_s(program) == {"a": 3.0, "c": None}


def test_programs_come_by_arrival_and_tenants_are_told_apart() -> None:
    calls = [
        recorded("c", 5.0, 6.0, program_id="q", program_class="coder", begun_before=True),
        recorded("c", 3.0, 4.0, tenant="acme"),
        recorded("c", 4.0, 5.0, tenant="blue"),
    ]
    programs = make_programs(calls)
    assert [(p.program_id, p.arrival_s, p.workload) for p in programs] == [
        ("acme/p", 0.0, "recorded"),
        ("blue/p", 1.0, "recorded"),
        ("q", 2.0, "coder"),
    ]
    assert [dict(p.meta) for p in programs] == [{}, {}, {"begun_before": True}]


def test_where_an_engine_counts_no_tokens_four_characters_are_one() -> None:
    call = recorded(
        "a", 0.0, 1.0, prompt_tokens=None, output_tokens=None, prompt=(message(("d", 41)),), answer=(message(("e", 9)),)
    )
    (traced,) = make_programs([call])[0].calls
    assert (traced.prompt_tokens, traced.output_tokens, traced.output_estimated) == (10, 2, True)
    (empty,) = make_programs([recorded("a", 0.0, 1.0, prompt_tokens=0)])[0].calls
    assert empty.prompt_tokens == 1  # a simulation computes at least one


def test_what_another_version_tells_is_refused() -> None:
    with pytest.raises(RecordError, match="of another version"):
        read_call({"tenant": "", "program_id": "p"})


_ids = st.sampled_from(("a", "b", "a#2", "c"))
_pieces = st.lists(st.tuples(st.sampled_from("uvwx"), st.integers(1, 40)), min_size=1, max_size=3)
_messages = st.lists(_pieces.map(lambda pieces: message(*pieces)), max_size=4).map(tuple)


@st.composite
def _calls(draw: st.DrawFn) -> RecordedCall:
    arrived_s = draw(st.floats(0, 50))
    return recorded(
        draw(_ids),
        arrived_s,
        arrived_s + draw(st.floats(0, 20)),
        program_id=draw(st.sampled_from("pq")),
        tenant=draw(st.sampled_from(("", "t"))),
        thread_id=draw(st.sampled_from(("", "t"))),
        parents=draw(st.none() | st.lists(_ids, max_size=3).map(tuple)),
        prompt_tokens=draw(st.none() | st.integers(0, 50)),
        output_tokens=draw(st.none() | st.integers(0, 9)),
        outcome=draw(st.sampled_from(("finished", "finished", "lost"))),
        prompt=draw(_messages),
        answer=draw(_messages),
    )


@given(calls=st.lists(_calls(), max_size=12))
def test_whatever_is_recorded_is_a_trace(calls: list[RecordedCall], tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = make_programs(calls)
    assert sum(len(program.calls) for program in programs) == sum(call.outcome == "finished" for call in calls)
    assert [program.arrival_s for program in programs] == sorted(program.arrival_s or 0.0 for program in programs)
    for program in programs:
        check_program(program)
    path: Path = tmp_path_factory.getbasetemp() / "recorded.jsonl"
    save_programs(path, programs)
    assert load_programs(path) == programs
