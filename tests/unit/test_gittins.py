"""The policy `gittins`: what it makes of what it has learnt, at the level of single calls."""

from __future__ import annotations

import pytest

from agentix.core import POLICIES
from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.events import Attained
from agentix.core.history import Histories, ServiceHistory
from agentix.core.policies.gittins import Gittins
from agentix.core.program import CallRow, ProgramRow
from core_shell import Shell


def policy(**settings: object) -> Gittins:
    return Gittins(SchedulerConfig.from_mapping({"policy": "gittins", "quanta_s": [1.0, 2.0, 4.0], **settings}))


def history(totals_s: list[float]) -> ServiceHistory:
    learnt = ServiceHistory()
    for total_s in totals_s:
        learnt.add(total_s)
    learnt.learn(())
    return learnt


def row(program_id: str = "p", *, totals_s: list[float] | None = None, **known: object) -> ProgramRow:
    learnt = history(totals_s) if totals_s else None
    return ProgramRow(program_id=program_id, started_s=0.0, history=learnt, **known)  # type: ignore[arg-type]


def call(of: ProgramRow, *, runs: bool = False, arrived_s: float = 0.0) -> CallRow:
    made = CallRow(call_id=f"{of.program_id}/1", program_id=of.program_id, arrived_s=arrived_s, running=runs)
    of.calls[made.call_id] = made
    return made


def test_it_is_what_default_means() -> None:
    assert POLICIES.resolve("default") is Gittins


def test_without_history_the_level_is_that_of_attained_service() -> None:
    for service_s, level in ((0.0, 0), (0.9, 0), (1.0, 1), (2.9, 1), (3.0, 2), (7.0, 3)):
        served = row(service_s=service_s, critical_path_s=service_s)
        assert policy().level(call(served), served, now=service_s) == level


def test_what_a_wider_table_expects_holds_and_without_it_what_is_known_here() -> None:
    shell = Shell(policy="gittins", quanta_s=(1.0, 2.0, 4.0))
    for told_s, level in ((6.0, 2), (0.5, 0), (None, 3)):
        attained = Attained(service_s=9.0, critical_path_s=9.0, expected_s=told_s)
        assert [p.level for p in shell.arrive(f"c{level}", attained=attained)] == [level]


def test_a_row_says_what_it_is_likely_to_need_only_if_programs_have_shown_it() -> None:
    shell = Shell(policy="gittins", quanta_s=(1.0, 2.0, 4.0))
    shell.arrive("c")
    assert shell.row().learnt_s is None
    taught_shell = taught()
    taught_shell.arrive("c")
    assert taught_shell.row().learnt_s == 8.0


def test_what_was_long_ago_fades() -> None:
    """After 40 gaps half of it counts, so that a program that stays for hours is not served last for ever."""
    for num_gaps, counts_s in ((0, 8.0), (40, 4.0), (120, 2.0)):
        stays = row(service_s=8.0, critical_path_s=8.0, num_gaps=num_gaps)
        assert policy().expected_s(stays) == counts_s
        learnt = history([2.0**i for i in range(12)])
        stays.history = learnt
        assert policy().expected_s(stays) == learnt.expected_s(counts_s)


def test_in_a_class_of_equals_who_has_begun_is_as_good_as_a_new_one() -> None:
    """Two needed 6 s and eight 9 s; one that has had 6.5 s may be nearer its end, but the class says: by turns."""
    totals_s = [6.0] * 2 + [9.0] * 8
    fresh, begun = row(totals_s=totals_s), row(totals_s=totals_s, service_s=6.5, critical_path_s=6.5)
    assert policy().expected_s(fresh) == policy().expected_s(begun)
    assert policy().level(call(fresh), fresh, 0.0) == policy().level(call(begun), begun, 6.5)
    assert policy().rank(call(fresh), fresh, 7.0) < policy().rank(call(begun), begun, 7.0)  # it has waited 7 s, not ½ s


def test_who_has_waited_for_patience_times_what_is_left_is_on_the_first_level() -> None:
    waits = row(totals_s=[8.0] * 8)
    for now, level in ((0.0, 3), (1.9, 0), (2.0, 0), (0.5, 2)):  # 8 - 4 x 0.5 = 6, of [3, 7)
        assert policy().level(call(waits), waits, now) == level
    assert policy(patience=100).level(call(waits), waits, 2.0) == 3


def test_neither_service_nor_gaps_are_waiting() -> None:
    busy = row(totals_s=[8.0] * 8, critical_path_s=5.0, gaps_s=7.0, num_gaps=1)
    assert policy().urgency_s(busy, now=12.0) == 8.0
    assert policy().urgency_s(busy, now=13.0) == 4.0


def test_a_call_that_runs_does_not_wait() -> None:
    """What it has had counts at once, not only when it is over."""
    busy = row(totals_s=[8.0] * 8)
    running = call(busy, runs=True)
    running.service_s = 5.0
    assert policy().urgency_s(busy, now=5.0) == 8.0
    assert policy().urgency_s(busy, now=6.0) == 4.0


def taught(**settings: object) -> Shell:
    """A shell in whose class every program takes 8 s, so that one that waits is on the first level after 2 s."""
    shell = Shell(**{"policy": "gittins", "quanta_s": (1.0, 2.0, 4.0), **settings})  # type: ignore[arg-type]
    for i in range(8):
        shell.serve(f"h{i}", 8.0, f"h{i}")
        shell.end(f"h{i}")
    return shell


def test_while_another_thread_is_served_a_program_does_not_wait() -> None:
    """Two calls come, and after 1 s one of them runs for 2 s: the other one's turn comes after 4 s, not after 2."""
    shell = taught()
    assert [p.level for p in (*shell.arrive("a"), *shell.arrive("b"))] == [3, 3]
    assert not shell.wait(1.0)
    shell.start("b")
    assert not shell.step(2.0, "b")
    assert [(p.call_id, p.level, p.reason) for p in shell.wait(1.0)] == [("a", 0, "starving")]


def test_a_call_that_was_preempted_waits_from_then_on() -> None:
    shell = taught()
    shell.arrive("a")
    shell.start("a")
    assert not shell.step(7.0, "a")
    assert not shell.preempt("a")
    assert not shell.wait(1.9)
    assert [(p.call_id, p.level) for p in shell.wait(0.1)] == [("a", 0)]


def test_a_call_of_lower_priority_stays_below_the_others_of_its_program() -> None:
    """However long it waits, and when its level is asked for again."""
    shell = taught()
    shell.arrive("good")
    shell.arrive("bad", priority=2)
    assert [shell.scheduler.level(c) for c in ("good", "bad")] == [3, 3]  # there are no more
    shell.wait(60.0)
    assert [shell.scheduler.level(c) for c in ("good", "bad")] == [0, 2]


def test_a_heavier_program_counts_for_less() -> None:
    assert policy().expected_s(row(totals_s=[8.0] * 8, weight=4.0)) == 2.0
    light = policy(class_weights={"batch": 0.5})
    assert light.expected_s(row(totals_s=[8.0] * 8, program_class="batch")) == 16.0


def test_within_a_level_who_has_waited_goes_before_who_has_just_come() -> None:
    """Both are expected to need 2 s; one has waited 5 s so far, the other 4 s. A third needs 1 s more and has waited 5 s."""
    old, new, long = (row(name, totals_s=[needs_s] * 8) for name, needs_s in (("old", 2.0), ("new", 2.0), ("long", 3.0)))
    new.started_s = 1.0
    assert policy().rank(call(old), old, 5.0) == 2.0
    assert policy().rank(call(new), new, 5.0) == policy().rank(call(long), long, 5.0) == 3.0


def test_within_a_level_service_and_gaps_do_not_make_a_program_older() -> None:
    served = row("served", totals_s=[2.0] * 8, critical_path_s=1.0, gaps_s=3.0, num_gaps=1)
    assert policy().rank(call(served), served, 5.0) == 5.0 - 1.0 + 2.0


@pytest.mark.parametrize(("kv_tokens", "held"), [(2 * 1250, set()), (2 * 1250 - 1, {"b"})])
def test_nobody_is_held_back_until_contexts_fit_no_longer(kv_tokens: int, held: set[str]) -> None:
    """Two programs of 1,000 tokens: half as many more when they end, as long as nothing is known, a quarter on average."""
    rows = [row("a", context_tokens=1000, service_s=0.5, num_finished=1), row("b", context_tokens=1000)]
    for each in rows:
        call(each)
        each.history = Histories().of("new")
    capacity = EngineCapacity(kv_tokens=kv_tokens, num_slots=8, prefill_s_per_token=0.001)
    assert policy().held_back(rows, frozenset(), capacity, 1.0) == held


def test_a_program_whose_tool_is_slow_makes_room() -> None:
    """Both have as much left; the one without a call is not over before its tool has answered, which takes a minute."""
    idle = row("idle", context_tokens=900, service_s=2.0, num_finished=1, gaps_s=60.0, num_gaps=1, last_completion_s=100.0)
    busy = row("busy", context_tokens=900, service_s=2.0, num_finished=1)
    new = row("new", context_tokens=900)
    call(busy)
    call(new)
    capacity = EngineCapacity(kv_tokens=2200, num_slots=2, prefill_s_per_token=0.001)
    assert policy(patience=1000).held_back([idle, busy, new], frozenset(), capacity, 100.0) == {"idle"}


def test_totals_are_learnt_from_programs_that_end() -> None:
    shell = Shell(policy="gittins", quanta_s=(1.0,))
    for i in range(8):
        shell.serve(f"c{i}", 6.0, f"p{i}")
        shell.end(f"p{i}")
    shell.arrive("c")
    learnt = shell.row().history
    assert learnt is not None
    assert learnt.expected_s(0.0) == 6.0


def test_a_context_that_needs_most_of_the_cache_is_let_in_although_smaller_ones_keep_coming() -> None:
    """Eight small programs of 2 s run at a time, and always as many wait; 900 of 1,000 tokens are never free by chance."""
    shell = Shell(policy="gittins", quanta_s=(1.0, 2.0, 4.0), capacity_tokens=1000, running_first=True)
    num_small, begun_s = 0, None
    for second in range(60):
        while len(shell.table.calls) - ("giant" in shell.table.rows) < 16:
            num_small += 1
            shell.arrive(f"s{num_small}", f"p{num_small}", prompt_tokens=40)
        if second == 10:
            shell.arrive("g", "giant", prompt_tokens=900)
        for call_id in shell.choose(8).admit:
            shell.start(call_id)
        running = sorted(shell.scheduler.running)
        if "g" in running:
            begun_s = second
            break
        shell.step(1.0, *running)
        for call_id in running:
            if shell.call(call_id).service_s >= 2.0:
                program_id = shell.call(call_id).program_id
                shell.finish(call_id)
                shell.end(program_id)
        shell.scheduler.validate()
    assert begun_s is not None
    assert 10 < begun_s <= 16
