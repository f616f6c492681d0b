"""The disciplines of other systems: order, time that KV is kept, and which programs are held back, in worked examples."""

from __future__ import annotations

import math

import pytest

from agentix.core import CallRow, MultiLevelPolicy, ProcessTable, ProgramRow
from agentix.core.events import Batch
from core_shell import Shell


def serve(shell: Shell, program_id: str, *, prompt_tokens: int, output_tokens: int = 0) -> None:
    """A call from arrival to end in no time."""
    shell.arrive(f"{program_id}0", program_id, prompt_tokens=prompt_tokens)
    shell.finish(f"{program_id}0", output_tokens=output_tokens)


# --- las


def las_shell() -> Shell:
    """Recent tokens of a, b, c: 1000, 600, 0."""
    shell = Shell(policy="las")
    serve(shell, "a", prompt_tokens=800, output_tokens=100)
    serve(shell, "b", prompt_tokens=600)
    return shell


def test_las_serves_the_program_with_the_fewest_recent_tokens() -> None:
    shell = las_shell()
    for program_id in ("a", "b", "c"):
        shell.arrive(program_id, program_id)
    assert shell.choose(3).run == ("c", "b", "a")


def test_las_weighs_service_by_eight_tenths_and_the_wait_by_two() -> None:
    """Inverted service of a, b, c is 0, 0.4, 1. After a has waited 4 s, b 3 s and c 0 s the scores are
    0.2 · 1 = 0.2, 0.8 · 0.4 + 0.2 · 0.75 = 0.47 and 0.8. Without c, those of a and b are 0.2 and 0.8.
    """
    shell = las_shell()
    shell.arrive("a", "a")
    shell.now += 1.0
    shell.arrive("b", "b")
    shell.now += 3.0
    shell.arrive("c", "c")
    assert shell.choose(3).run == ("c", "b", "a")
    ranks = {call_id: shell.scheduler.key(call_id)[1] for call_id in ("a", "b", "c")}
    assert ranks["b"] - ranks["a"] == pytest.approx(0.2 - 0.47)
    assert ranks["c"] - ranks["a"] == pytest.approx(0.2 - 0.8)


def test_las_lets_the_longer_wait_decide_where_services_are_close_to_each_other() -> None:
    """d and e stand 10 tokens apart on a scale of 1000, so 1 s of 10 s of waiting is worth more: 0.008 against 0.02."""
    shell = Shell(policy="las")
    for program_id, prompt_tokens in (("far", 1000), ("d", 10)):
        serve(shell, program_id, prompt_tokens=prompt_tokens)
    for program_id, waits_s in (("far", 9.0), ("d", 1.0), ("e", 0.0)):
        shell.arrive(program_id, program_id)
        shell.now += waits_s
    assert shell.choose(3).run[:2] == ("d", "e")


def test_las_forgets_service_by_half_a_minute_in_two() -> None:
    """a's 1000 tokens of two minutes ago are 250 now, less than b's 600 of now."""
    shell = Shell(policy="las")
    serve(shell, "a", prompt_tokens=1000)
    shell.now += 120.0
    serve(shell, "b", prompt_tokens=600)
    shell.arrive("b1", "b")
    shell.arrive("a1", "a")
    assert shell.choose(2).run == ("a1", "b1")


def test_las_serves_a_programs_calls_in_order_of_arrival() -> None:
    shell = Shell(policy="las")
    for call_id in ("x", "y", "z"):
        shell.arrive(call_id, "a")
        shell.now += 1.0
    shell.arrive("other", "b")
    assert shell.choose(4).run == ("x", "y", "z", "other")


# --- policies that never preempt


@pytest.mark.parametrize("policy", ["las", "program_fcfs", "pause_resume"])
def test_a_running_call_does_not_give_way_to_a_better_one(policy: str) -> None:
    shell = Shell(policy=policy)
    shell.begin("old")
    shell.now += 1.0
    serve(shell, "served", prompt_tokens=1000)
    shell.arrive("runs", "served")
    shell.start("runs")
    shell.arrive("better", "old")
    assert shell.choose(1) == Batch(run=("runs",), admit=(), preempt=())
    assert shell.choose(2).run == ("runs", "better")
    assert shell.choose(0).preempt == ("runs",)


def test_a_call_taken_off_by_an_engine_without_blocks_is_back_at_its_place() -> None:
    shell = Shell(policy="program_fcfs")
    for program_id in ("a", "b", "c"):
        shell.arrive(program_id, program_id)
        shell.now += 1.0
    shell.start("c")
    shell.start("b")
    assert shell.scheduler.order == ("b", "c", "a")
    shell.preempt("b")
    assert shell.scheduler.order == ("c", "a", "b")
    shell.scheduler.validate()


class Unhurried(MultiLevelPolicy):
    """PLAS without preemption."""

    preempts = False

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        return row.service_s


def test_levels_and_quanta_work_without_preemption_too() -> None:
    """a sinks a level while it runs, and that shows once it is taken off."""
    shell = Shell(policy=f"{__name__}:Unhurried", quanta_s=(1.0, 2.0))
    shell.arrive("a", "p")
    shell.start("a")
    shell.arrive("b", "q")
    assert [p.level for p in shell.step(1.0, "a")] == [1]
    assert shell.scheduler.order == ("a", "b")
    assert shell.scheduler.level("a") == 1
    shell.scheduler.validate()
    shell.preempt("a")
    assert shell.scheduler.order == ("b", "a")


# --- program_fcfs


def test_program_fcfs_serves_the_program_that_came_first_however_late_its_call() -> None:
    shell = Shell(policy="program_fcfs")
    for program_id in ("a", "b", "c"):
        shell.begin(program_id)
        shell.now += 1.0
    for program_id in ("c", "b", "a"):
        shell.arrive(program_id, program_id)
    assert shell.choose(3).run == ("a", "b", "c")


def retention_s(shell: Shell) -> float:
    return shell.scheduler.policy.retention_s(shell.row(), shell.now)


def test_kv_is_kept_for_two_seconds_before_the_first_gap_is_known() -> None:
    shell = Shell(policy="program_fcfs")
    shell.serve("a", 1.0)
    assert retention_s(shell) == 2.0


def test_kv_is_kept_longer_the_more_a_miss_costs_and_not_at_all_if_gaps_are_longer() -> None:
    """Gaps of 1 and 3 s: m = 2. Waits of 5, 0 and 7 s: B = 4, so τ = 2 ln 2; after another call without, B = 3."""
    shell = Shell(policy="program_fcfs")
    for call_id, waiting_s, gap_s in (("a", 5.0, 1.0), ("b", 0.0, 3.0), ("c", 7.0, 2.0), ("d", 0.0, 0.0)):
        shell.arrive(call_id)
        shell.finish(call_id, service_s=0.0, waiting_s=waiting_s)
        if call_id == "c":
            assert retention_s(shell) == pytest.approx(2.0 * math.log(2.0))
        shell.now += gap_s
    assert retention_s(shell) == pytest.approx(2.0 * math.log(1.5))
    shell.now += 100.0
    shell.serve("e", 1.0)  # m is 26.5 now
    assert retention_s(shell) == 0.0


def test_kv_of_a_program_that_has_ended_is_not_kept() -> None:
    shell = Shell(policy="program_fcfs")
    shell.arrive("a")
    shell.arrive("b")
    shell.end("p")
    shell.finish("a")
    assert retention_s(shell) == 0.0


@pytest.mark.parametrize("policy", ["fcfs", "plas", "las", "pause_resume"])
def test_other_policies_keep_nothing(policy: str) -> None:
    shell = Shell(policy=policy)
    shell.serve("a", 1.0)
    assert retention_s(shell) == 0.0


# --- pause_resume: each active program needs its context and 100 tokens


def hold_shell(capacity_tokens: int | None, table: ProcessTable | None = None) -> Shell:
    return Shell(table, policy="pause_resume", capacity_tokens=capacity_tokens)


def held(shell: Shell) -> set[str]:
    """Who is held back after a choice, which must be the same if asked again."""
    batch = shell.choose(99)
    held = set(shell.scheduler.holding.held)
    assert shell.choose(99) == batch
    assert set(shell.scheduler.holding.held) == held
    return held


def run_first_call(shell: Shell, program_id: str, prompt_tokens: int) -> None:
    shell.arrive(f"{program_id}0", program_id, prompt_tokens=prompt_tokens)
    shell.start(f"{program_id}0")


def test_new_programs_are_let_in_while_they_fit_smallest_first() -> None:
    """400 + 600 of 1000 tokens; c's 700 do not fit and are passed over, whatever came first."""
    shell = hold_shell(1000)
    for program_id, prompt_tokens in (("c", 600), ("b", 500), ("a", 300)):
        shell.arrive(program_id, program_id, prompt_tokens=prompt_tokens)
    assert held(shell) == {"c"}
    assert shell.choose(9) == Batch(run=("b", "a"), admit=("b", "a"), preempt=())


def test_a_program_whose_tool_is_busy_keeps_its_room() -> None:
    """a needs 400 + 100 + 100 with its answer; b needs 500 and fits only after a has ended."""
    shell = hold_shell(1000)
    run_first_call(shell, "a", 400)
    shell.finish("a0", output_tokens=100)
    run_first_call(shell, "x", 200)
    shell.arrive("b", "b", prompt_tokens=400)
    assert held(shell) == {"b"}
    shell.end("a")
    assert held(shell) == set()


def test_over_capacity_the_smallest_program_without_a_call_is_paused_first() -> None:
    """Needs 300, 400, 500 of 1000: 200 too many. a and b wait for tools; a, the smaller of them, is paused."""
    shell = hold_shell(1000)
    for program_id, prompt_tokens in (("a", 200), ("b", 300), ("c", 300)):
        run_first_call(shell, program_id, prompt_tokens)
    shell.finish("a0")
    shell.finish("b0")
    shell.finish("c0", output_tokens=100)
    shell.arrive("c1", "c", prompt_tokens=400)
    shell.start("c1")
    assert held(shell) == {"a"}
    shell.arrive("a1", "a", prompt_tokens=200)
    assert held(shell) == {"a"}
    assert shell.choose(9).run == ("c1",)


def test_a_running_program_is_paused_at_the_end_of_its_call() -> None:
    """Needs 400 and 700 of 1000, both running: a, the smaller, goes on with its call and is held at the next."""
    shell = hold_shell(1000)
    run_first_call(shell, "a", 300)
    run_first_call(shell, "b", 600)
    assert held(shell) == {"a"}
    assert shell.choose(9).run == ("a0", "b0")
    shell.finish("a0")
    shell.arrive("a1", "a", prompt_tokens=300)
    assert shell.choose(9).run == ("b0",)
    shell.finish("b0")
    shell.end("b")
    assert held(shell) == set()
    assert shell.choose(9).run == ("a1",)


def test_a_paused_program_with_a_waiting_call_is_resumed_before_a_new_one() -> None:
    """p was paused and waits with 500; n is new and smaller, with 300: there is room for either, not for both."""
    shell = hold_shell(1000)
    run_first_call(shell, "p", 300)
    run_first_call(shell, "big", 600)
    assert held(shell) == {"p"}
    shell.finish("p0")
    shell.arrive("p1", "p", prompt_tokens=400)
    shell.arrive("n", "n", prompt_tokens=200)


def test_if_nothing_runs_and_nobody_fits_the_first_in_order_is_let_go() -> None:
    shell = hold_shell(100)
    for program_id in ("a", "b"):
        shell.arrive(program_id, program_id, prompt_tokens=50)
    assert held(shell) == {"b"}
    assert shell.choose(9).run == ("a",)
    shell.start("a")
    assert shell.choose(9).run == ("a",)
    assert held(shell) == {"a", "b"}


def test_a_call_that_has_waited_half_an_hour_is_let_in_whatever_its_size() -> None:
    shell = hold_shell(1000)
    run_first_call(shell, "a", 600)
    shell.arrive("huge", "huge", prompt_tokens=900)
    assert held(shell) == {"huge"}
    shell.now += 1799.0
    assert held(shell) == {"huge"}
    shell.now += 1.0
    assert held(shell) == {"a"}
    assert shell.choose(9).run == ("a0", "huge")


def test_without_a_known_capacity_nobody_is_held() -> None:
    shell = hold_shell(None)
    for program_id in ("a", "b"):
        shell.arrive(program_id, program_id, prompt_tokens=10**9)
    assert held(shell) == set()


def test_programs_that_fit_exactly_are_left_alone() -> None:
    """a and b need 500 each of 1000. w, which was too much beside c, would fit in the place of either."""
    shell = hold_shell(1000)
    run_first_call(shell, "w", 100)
    run_first_call(shell, "c", 850)
    assert held(shell) == {"w"}
    for program_id in ("w", "c"):
        shell.finish(f"{program_id}0")
    shell.end("c")
    for program_id in ("a", "b"):
        run_first_call(shell, program_id, 400)
    shell.finish("a0")
    shell.arrive("w1", "w", prompt_tokens=100)
    assert held(shell) == {"w"}


def test_a_program_counts_on_the_engine_that_its_latest_call_came_to() -> None:
    """p leaves 500 tokens at engine one and goes on at engine two: n fits at one as soon as p's next call has come to two."""
    table = ProcessTable()
    one, two = hold_shell(1000, table), hold_shell(1000, table)
    run_first_call(one, "x", 200)
    run_first_call(one, "p", 400)
    one.finish("p0")
    one.arrive("n", "n", prompt_tokens=300)
    assert held(one) == {"n"}
    two.arrive("p1", "p", prompt_tokens=400)
    assert held(one) == set()
    two.finish("p1")
    two.end("p")
    run_first_call(one, "q", 200)
    two.arrive("q1", "q", prompt_tokens=200)
    one.arrive("m", "m", prompt_tokens=300)
    assert held(one) == {"m"}  # beside x, n and q, whose first call is still active here
