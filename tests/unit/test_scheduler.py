"""The scheduler: order, quanta, promotion and batch choice, one rule at a time."""

from __future__ import annotations

import pytest

from agentix.core import CallRow, ConfigError, InvalidTransition, ProcessTable, UnknownCall
from agentix.core.events import Attained, Batch, CallAborted, CallMoved, Placed
from core_shell import Shell


def demoted(call_id: str, level: int) -> list[Placed]:
    return [Placed(call_id=call_id, level=level, reason="quantum")]


def promoted(call_id: str) -> list[Placed]:
    return [Placed(call_id=call_id, level=0, reason="starving")]


def test_a_quantum_used_up_in_several_steps_leads_one_level_down_with_a_fresh_quantum() -> None:
    shell = Shell(policy="mlfq", quanta_s=(1.0, 2.0))
    shell.arrive("a")
    assert shell.step(0.5, "a") == []
    assert shell.step(0.5, "a") == demoted("a", 1)
    assert shell.step(1.5, "a") == []
    assert shell.step(0.5, "a") == demoted("a", 2)
    assert shell.step(1000.0, "a") == []


def test_a_long_step_leads_one_level_down_only() -> None:
    shell = Shell(policy="mlfq", quanta_s=(1.0, 2.0))
    shell.arrive("a")
    assert shell.step(50.0, "a") == demoted("a", 1)
    assert shell.step(1.5, "a") == []


def test_a_call_that_enters_deeper_gets_the_quantum_of_its_level() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0))
    shell.serve("a", 2.5)
    shell.arrive("b")
    assert shell.step(1.5, "b") == []
    assert shell.step(0.5, "b") == demoted("b", 2)


def test_preemption_does_not_renew_a_quantum() -> None:
    shell = Shell(policy="mlfq", quanta_s=(1.0,))
    shell.arrive("a")
    shell.start("a")
    shell.step(0.75, "a")
    shell.preempt("a")
    shell.wait(5.0)
    shell.start("a")
    assert shell.step(0.25, "a") == demoted("a", 1)


def test_a_demoted_call_goes_to_the_tail_of_its_new_level() -> None:
    shell = Shell(policy="mlfq", quanta_s=(1.0,))
    for call_id in ("a", "b", "c"):
        shell.arrive(call_id)
    shell.step(1.0, "b")
    shell.step(1.0, "a")
    assert shell.scheduler.order == ("c", "b", "a")


def test_round_robin_sends_a_call_to_the_tail_after_each_quantum() -> None:
    shell = Shell(policy="round_robin", quanta_s=(1.0, 99.0))
    for call_id in ("a", "b", "c"):
        shell.arrive(call_id)
    turns = []
    for _ in range(5):
        turns.append(shell.scheduler.order[0])
        shell.step(1.0, turns[-1])
    assert turns == ["a", "b", "c", "a", "b"]


def test_fcfs_keeps_the_order_of_arrival_whatever_calls_have_had() -> None:
    shell = Shell(policy="fcfs", starvation_ratio=1.0)
    for call_id in ("b", "a", "c"):
        shell.arrive(call_id, program_id=call_id)
    assert shell.step(100.0, "b", "c") == []
    assert shell.scheduler.order == ("b", "a", "c")


def test_a_finished_call_leaves_the_others_in_place() -> None:
    shell = Shell(policy="mlfq")
    for call_id in ("a", "b", "c"):
        shell.arrive(call_id)
    shell.finish("b")
    assert shell.scheduler.order == ("a", "c")
    with pytest.raises(UnknownCall, match="'b'"):
        shell.scheduler.key("b")


def starving_shell() -> Shell:
    """Program p has had 2 s of service and no waiting; its call b waits at level 1, and starves after β · 2 s = 6 s."""
    shell = Shell(policy="plas", quanta_s=(1.0, 4.0), starvation_ratio=3.0)
    shell.serve("a", 2.0)
    assert [p.level for p in shell.arrive("b")] == [1]
    return shell


def test_a_waiting_call_is_promoted_when_waiting_reaches_beta_times_service() -> None:
    shell = starving_shell()
    assert shell.wait(5.5) == []
    assert shell.wait(0.5) == promoted("b")


def test_mlfq_judges_starvation_by_the_call_alone() -> None:
    """The program has waited 90 s for 2 s of service, which is nothing to a call that starves after β · 1 s = 3 s."""
    shell = Shell(policy="mlfq", quanta_s=(1.0, 4.0), starvation_ratio=3.0)
    shell.arrive("a")
    shell.wait(90.0)
    shell.step(2.0, "a")
    shell.finish("a")
    shell.arrive("b")
    assert shell.step(1.0, "b") == demoted("b", 1)
    assert shell.wait(2.5) == []
    assert shell.wait(0.5) == promoted("b")


def test_without_beta_no_call_is_promoted() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 4.0))
    shell.serve("a", 2.0)
    shell.arrive("b")
    assert shell.wait(1e9) == []


def test_any_event_reveals_that_a_call_starves() -> None:
    shell = starving_shell()
    shell.now += 7.0
    assert shell.begin("other") == promoted("b")


def test_a_promoted_call_gets_the_first_quantum_and_its_own_account_starts_afresh() -> None:
    """After its promotion b has used up 1 s; with 2 s of the program, 9 s of new waiting are due, the old 6 s gone."""
    shell = starving_shell()
    assert shell.wait(6.0) == promoted("b")
    assert shell.step(1.0, "b") == demoted("b", 1)
    assert shell.wait(8.5) == []
    assert shell.wait(0.5) == promoted("b")


def test_a_promotion_of_one_call_does_not_restart_its_siblings() -> None:
    """c arrives 3 s after b, so it has waited 6 s 3 s later than b has."""
    shell = starving_shell()
    assert shell.wait(3.0) == []
    shell.arrive("c")
    assert shell.wait(3.0) == promoted("b")
    assert shell.wait(3.0) == promoted("c")


def test_service_puts_starvation_off() -> None:
    """1 s of service for b: 3 s of service in all, so 9 s of waiting instead of 6 s."""
    shell = starving_shell()
    shell.step(1.0, "b")
    assert shell.wait(8.5) == []
    assert shell.wait(0.5) == promoted("b")


def test_waiting_of_a_sibling_that_is_over_brings_starvation_forward() -> None:
    shell = starving_shell()
    shell.arrive("c")
    shell.wait(3.0)
    assert shell.finish("c", service_s=0.0) == promoted("b")


def test_waiting_known_to_a_wider_table_brings_starvation_forward() -> None:
    """At once, though b was looked at before, when it was not due until 6 s."""
    shell = starving_shell()
    placed = shell.arrive("c", attained=Attained(service_s=2.0, waiting_s=6.0))
    assert {p.call_id for p in placed if p.reason == "starving"} == {"b", "c"}


def test_a_running_call_is_not_promoted_until_it_is_served_or_preempted() -> None:
    shell = starving_shell()
    shell.start("b")
    assert shell.wait(20.0) == []
    assert shell.preempt("b") == promoted("b")


def test_starving_calls_are_promoted_in_the_order_in_which_they_began_to_starve() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0,), starvation_ratio=3.0)
    shell.serve("a", 2.0, "served_more")
    shell.serve("b", 1.0, "served_less")
    shell.arrive("c", "served_more")
    shell.arrive("d", "served_less")
    shell.now += 60.0
    assert shell.begin("other") == promoted("d") + promoted("c")


def test_a_batch_is_the_best_calls_and_what_that_changes() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0,))
    shell.serve("a", 1.0, "old")
    for call_id in ("b", "c"):
        shell.arrive(call_id, "old")
        shell.start(call_id)
    shell.arrive("d", "new")
    assert shell.choose(2) == Batch(run=("d", "b"), admit=("d",), preempt=("c",))
    assert shell.choose(0) == Batch(run=(), admit=(), preempt=("b", "c"))
    assert shell.choose(9) == Batch(run=("d", "b", "c"), admit=("d",), preempt=())


def test_asking_for_a_batch_changes_nothing() -> None:
    shell = Shell(policy="plas")
    shell.arrive("a")
    assert shell.choose(1) == shell.choose(1) == Batch(run=("a",), admit=("a",), preempt=())
    assert not shell.call("a").running


class Tokens:
    """A budget of prompt tokens."""

    def __init__(self, num_tokens: int) -> None:
        self.left = num_tokens

    def take(self, call: CallRow) -> bool:
        fits = (call.prompt_tokens or 0) <= self.left
        self.left -= (call.prompt_tokens or 0) if fits else 0
        return fits


def test_a_batch_stops_at_the_first_call_that_does_not_fit() -> None:
    """c would fit, but would overtake b."""
    shell = Shell(policy="fcfs")
    for call_id, prompt_tokens in (("a", 50), ("b", 60), ("c", 10)):
        shell.arrive(call_id, prompt_tokens=prompt_tokens)
    assert shell.scheduler.choose(0.0, Tokens(100)).run == ("a",)
    assert shell.scheduler.choose(0.0, Tokens(110)).run == ("a", "b")


def test_schedulers_on_one_table_see_one_program_but_their_own_calls() -> None:
    table = ProcessTable()
    one, other = Shell(table, policy="plas", quanta_s=(1.0,)), Shell(table, policy="plas", quanta_s=(1.0,))
    one.serve("a", 2.0)
    assert [p.level for p in other.arrive("b")] == [1]
    assert one.scheduler.order == ()
    with pytest.raises(UnknownCall):
        one.finish("b")
    assert other.scheduler.order == ("b",)


def test_validate_finds_a_call_that_is_over_behind_the_schedulers_back() -> None:
    shell = Shell()
    shell.arrive("a")
    shell.scheduler.validate()
    shell.table.apply(CallAborted(now=0.0, call_id="a"))
    with pytest.raises(InvalidTransition, match="still queued"):
        shell.scheduler.validate()


def test_what_a_program_waits_for_on_one_engine_counts_at_once_on_another() -> None:
    """Engine 1 finishes a call that waited long; its sibling, which waits at engine 2, starves from that moment on."""
    table = ProcessTable()
    one, two = (Shell(table, policy="plas", quanta_s=(1.0,), starvation_ratio=10.0) for _ in range(2))
    one.serve("a", 2.0)
    one.arrive("b")
    two.now = one.now
    two.arrive("c")
    two.start("c")
    two.preempt("c")
    one.now = 12.0
    one.finish("b", service_s=0.0, waiting_s=18.0)
    two.scheduler.validate()
    two.now = 12.0
    assert two.wait(0.0) == promoted("c")


def test_a_call_that_moves_leaves_one_queue_and_enters_the_other() -> None:
    table = ProcessTable()
    one, two = Shell(table), Shell(table)
    one.arrive("a", engine_id="1")
    moved = CallMoved(now=1.0, call_id="a", engine_id="2")
    assert one.scheduler.apply(moved) == []
    assert two.scheduler.apply(moved) == [Placed(call_id="a", level=0, reason="arrival")]
    assert (one.scheduler.order, two.scheduler.order) == ((), ("a",))
    assert table.call("a").engine_id == "2"
    assert table.row("p").engine_ids == ["1", "2"]
    two.finish("a")
    one.scheduler.validate()
    two.scheduler.validate()


def test_watches_of_calls_that_are_over_do_not_pile_up() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0,), starvation_ratio=1000.0)
    shell.serve("first", 2.0)
    for n in range(300):
        shell.arrive(f"c{n}")
    for n in range(300):
        shell.finish(f"c{n}", service_s=0.1, waiting_s=0.0)
        shell.scheduler.validate()


def test_a_call_whose_policy_raises_is_nowhere() -> None:
    shell = Shell(policy="srpt")
    with pytest.raises(ConfigError, match="total work"):
        shell.arrive("a")
    assert shell.scheduler.order == ()
    assert dict(shell.table.calls) == {}
    shell.table.validate()
    shell.scheduler.validate()
