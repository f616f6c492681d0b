"""The process table: what one event does to the rows."""

from __future__ import annotations

import math

import pytest

from agentix.core import InvalidTransition, ProcessTable, UnknownProgram
from agentix.core.events import (
    Attained,
    CallArrived,
    CallFinished,
    CallMoved,
    ProgramStarted,
    ServedElsewhere,
    StepCompleted,
    TotalsLearnt,
)
from agentix.core.program import MAX_PATHS
from core_shell import Shell


def test_a_row_appears_with_the_first_call_and_goes_with_the_session() -> None:
    shell = Shell()
    shell.serve("a", 1.0)
    assert list(shell.table.rows) == ["p"]
    shell.end("p")
    assert list(shell.table.rows) == []
    with pytest.raises(UnknownProgram):
        shell.row("p")


def test_starting_a_live_program_again_changes_nothing() -> None:
    shell = Shell()
    shell.begin("p", program_class="chat", total_work_s=9.0)
    shell.serve("a", 1.0)
    shell.begin("p", program_class="other", total_work_s=1.0)
    row = shell.row()
    assert (row.program_class, row.total_work_s, row.started_s, row.service_s) == ("chat", 9.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("said", "classes"),
    [
        (["", "chat", "coder"], ["", "chat", "chat"]),
        (["auto-1", "auto-2"], ["auto-1", "auto-2"]),
        (["auto-1", "", "chat", "auto-2"], ["auto-1", "auto-1", "chat", "chat"]),
    ],
)
@pytest.mark.parametrize("with_calls", [False, True])
def test_a_class_that_is_named_takes_the_place_of_none_and_of_one_that_was_worked_out(
    said: list[str], classes: list[str], *, with_calls: bool
) -> None:
    table = ProcessTable()
    for n, (name, program_class) in enumerate(zip(said, classes, strict=True)):
        if with_calls:
            table.apply(CallArrived(now=float(n), call_id=f"{n}", program_id="p", program_class=name or None))
        else:
            table.apply(ProgramStarted(now=float(n), program_id="p", program_class=name))
        assert table.row("p").program_class == program_class
        assert table.row("p").history is table.histories.by_class[program_class]


@pytest.mark.parametrize(
    ("before", "said", "after"), [("chat", "auto-1", "chat"), ("chat", "coder", "coder"), ("auto-1", "auto-2", "auto-2")]
)
def test_what_a_wider_table_says_of_the_class_holds_unless_it_was_only_worked_out(before: str, said: str, after: str) -> None:
    table = ProcessTable()
    table.apply(ProgramStarted(now=0.0, program_id="p", program_class=before))
    table.apply(CallArrived(now=1.0, call_id="a", program_id="p", attained=Attained(program_class=said)))
    assert table.row("p").program_class == after


def test_what_was_learnt_elsewhere_foretells_beside_what_is_under_way_here() -> None:
    """As if ten programs of the class had ended here; ten of it have had 5 s so far."""
    table = ProcessTable()
    for n in range(10):
        table.apply(ServedElsewhere(now=0.0, program_id=f"p{n}", service_s=5.0, program_class="coder"))
    totals_s = (1.0,) * 8 + (20.0,) * 2
    table.apply(TotalsLearnt(now=0.0, program_class="coder", totals_s=totals_s, contexts=(100,) * 10))
    history = table.row("p0").history
    assert history is not None
    assert history.expected_s(0.0) == pytest.approx((1 / 0.4) ** (2 / 3))
    assert history.expected_context_tokens(60) == 100
    assert not table.histories.everything.totals_s
    table.apply(TotalsLearnt(now=0.0, totals_s=(7.0,) * 8, contexts=(1,) * 8))
    assert table.histories.of("new").expected_s(0.0) == 7.0


@pytest.mark.parametrize(
    ("totals_s", "contexts"), [((1.0,), ()), ((-1.0,), (1,)), ((math.nan,), (1,)), ((1.0,), (-1,)), ((1.0,) * 513, (1,) * 513)]
)
def test_totals_that_no_programs_can_have_had_change_nothing(totals_s: tuple[float, ...], contexts: tuple[int, ...]) -> None:
    table = ProcessTable()
    with pytest.raises(InvalidTransition):
        table.apply(TotalsLearnt(now=0.0, program_class="coder", totals_s=totals_s, contexts=contexts))
    assert not table.histories.by_class


def test_a_program_ended_while_a_call_is_active_goes_with_its_last_call() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.arrive("b")
    shell.end("p")
    shell.finish("a")
    assert list(shell.row().calls) == ["b"]
    shell.abort("b")
    assert not shell.table.rows
    assert not shell.table.calls


def test_a_call_that_arrives_after_the_end_keeps_the_program_alive() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.end("p")
    shell.arrive("b")
    shell.finish("a")
    shell.finish("b")
    assert not shell.row().ended


def test_service_is_the_sum_of_steps_and_waiting_the_rest_of_the_time_since_arrival() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.wait(3.0)
    shell.step(1.0, "a")
    shell.wait(0.5)
    shell.step(2.0, "a")
    assert shell.call("a").service_s == 3.0
    assert shell.call("a").waiting_s(shell.now) == 3.5
    shell.finish("a")
    assert (shell.row().service_s, shell.row().waiting_s) == (3.0, 3.5)


def test_figures_from_outside_take_precedence_over_the_steps() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.step(4.0, "a")
    shell.finish("a", service_s=1.0, waiting_s=0.25)
    assert (shell.row().service_s, shell.row().waiting_s) == (1.0, 0.25)


def test_service_from_outside_leaves_the_rest_of_the_time_as_waiting() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.wait(4.0)
    shell.finish("a", service_s=1.0)
    assert (shell.row().service_s, shell.row().waiting_s) == (1.0, 3.0)


def test_an_aborted_call_leaves_its_service_and_is_counted_apart() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.step(2.0, "a")
    shell.abort("a", reason="client gone")
    shell.serve("b", 1.0)
    assert shell.row().service_s == 3.0
    assert (shell.row().num_finished, shell.row().num_aborted) == (1, 1)


def test_attained_from_a_wider_table_raises_a_row_and_never_lowers_it() -> None:
    shell = Shell()
    shell.serve("a", 2.0)
    shell.arrive("b", attained=Attained(service_s=5.0, waiting_s=7.0, critical_path_s=3.0))
    row = shell.row()
    assert (row.service_s, row.waiting_s, row.critical_path_s) == (5.0, 7.0, 3.0)
    shell.arrive("c", attained=Attained(service_s=1.0, waiting_s=1.0, critical_path_s=1.0))
    assert (row.service_s, row.waiting_s, row.critical_path_s) == (5.0, 7.0, 3.0)


def test_a_row_tells_when_its_last_call_arrived_and_when_one_was_last_over() -> None:
    shell = Shell()
    shell.serve("a", 1.0)
    shell.wait(2.0)
    shell.arrive("b")
    shell.wait(4.0)
    assert (shell.row().last_arrival_s, shell.row().last_completion_s) == (3.0, 1.0)


def test_engines_and_threads_of_a_program() -> None:
    shell = Shell()
    shell.arrive("a", engine_id="e1", thread_id="t0")
    shell.arrive("b", engine_id="e0", thread_id="t1", pin=True)
    shell.arrive("c", engine_id="e1", thread_id="t0")
    row = shell.row()
    assert row.engine_ids == ["e1", "e0"]
    assert row.home_engine_id == "e0"
    assert {thread: [call.call_id for call in calls] for thread, calls in row.threads.items()} == {
        "t0": ["a", "c"],
        "t1": ["b"],
    }


def test_a_pin_without_an_engine_is_refused() -> None:
    table = ProcessTable()
    with pytest.raises(InvalidTransition, match="pin"):
        table.apply(CallArrived(now=0.0, call_id="a", program_id="p", pin=True))
    assert not table.rows
    assert not table.calls


def test_a_moved_call_takes_the_home_of_its_program_along() -> None:
    shell = Shell()
    shell.arrive("a", engine_id="e0", pin=True)
    shell.arrive("b", engine_id="e1")
    shell.table.apply(CallMoved(now=1.0, call_id="b", engine_id="e2"))
    assert shell.row().home_engine_id == "e0"
    shell.table.apply(CallMoved(now=1.0, call_id="a", engine_id="e2"))
    assert shell.row().home_engine_id == "e2"
    assert shell.call("a").engine_id == "e2"
    assert shell.row().engine_ids == ["e0", "e1", "e2"]


def test_stale_programs_are_those_idle_for_longer_than_asked() -> None:
    shell = Shell()
    shell.begin("silent")
    shell.arrive("a", "busy")
    shell.wait(10.0)
    shell.serve("b", 5.0, "recent")
    assert shell.table.stale(now=15.0, idle_s=14.0) == ["silent"]
    assert shell.table.stale(now=15.0, idle_s=15.0) == []
    assert shell.table.stale(now=25.0, idle_s=9.0) == ["silent", "recent"]


def test_a_program_is_idle_from_the_abort_of_its_last_call() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.step(100.0, "a")
    shell.abort("a")
    assert shell.table.stale(now=101.0, idle_s=10.0) == []
    assert shell.table.stale(now=111.0, idle_s=10.0) == ["p"]


def test_rows_and_calls_cannot_be_changed_from_outside() -> None:
    shell = Shell()
    shell.arrive("a")
    with pytest.raises(TypeError):
        shell.table.rows["q"] = shell.row()  # type: ignore[index]
    with pytest.raises(TypeError):
        del shell.table.calls["a"]  # type: ignore[attr-defined]


def test_validate_finds_a_call_that_only_one_side_knows() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.table.validate()
    shell.row().calls.clear()
    with pytest.raises(InvalidTransition, match="index of active calls"):
        shell.table.validate()


def test_tables_do_not_share_state() -> None:
    one, other = ProcessTable(), ProcessTable()
    one.apply(ProgramStarted(now=0.0, program_id="p"))
    with pytest.raises(UnknownProgram) as caught:
        other.row("p")
    assert caught.value.program_id == "p"


@pytest.mark.parametrize("figure", [-1.0, math.nan])
def test_a_negative_figure_from_outside_is_refused(figure: float) -> None:
    shell = Shell()
    shell.arrive("a")
    for event in (
        CallFinished(now=1.0, call_id="a", service_s=figure),
        CallFinished(now=1.0, call_id="a", waiting_s=figure),
        StepCompleted(now=1.0, duration_s=figure, call_ids=("a",)),
    ):
        with pytest.raises(InvalidTransition, match="negative"):
            shell.table.apply(event)
    assert shell.call("a").service_s == shell.row().service_s == 0.0


def test_a_program_that_never_ends_does_not_grow_for_ever() -> None:
    """The paths of its latest calls are kept; for a parent from long ago the scalar stands in."""
    shell = Shell()
    for n in range(MAX_PATHS + 100):
        shell.serve(f"c{n}", 1.0, parents=())
    assert len(shell.row().path_s) == MAX_PATHS
    shell.arrive("recent", parents=(f"c{MAX_PATHS + 99}",))
    assert shell.call("recent").path_s == 1.0
    shell.arrive("late", parents=("c0",))
    assert shell.call("late").path_s == shell.row().critical_path_s
