"""What each policy takes for the attained service of a call, and the level that follows from it."""

from __future__ import annotations

import pytest

from agentix.core import ConfigError, SchedulerConfig, make_policy
from agentix.core.events import Attained
from agentix.core.policies import refuse_clairvoyant
from core_shell import Shell

UNIT_LEVELS_S = (1.0,) * 30


def levels(policy: str, *graph: tuple[str, float, tuple[str, ...] | None]) -> dict[str, int]:
    """Level of each call on arrival, calls served one after another. Levels of one second show p(c) in whole seconds."""
    shell = Shell(policy=policy, quanta_s=UNIT_LEVELS_S)
    return {
        placed.call_id: placed.level
        for call_id, service_s, parents in graph
        for placed in shell.serve(call_id, service_s, parents=parents)
    }


# root r; a short branch s and a long branch l of it; then one child of each branch, and their join
GRAPH: list[tuple[str, float, tuple[str, ...] | None]] = [
    ("r", 2.0, ()),
    ("s", 1.0, ("r",)),
    ("l", 5.0, ("r",)),
    ("after_s", 1.0, ("s",)),
    ("after_l", 1.0, ("l",)),
    ("join", 1.0, ("after_s", "after_l")),
]


def test_plas_counts_the_service_of_all_calls_of_the_program_that_are_over() -> None:
    assert levels("plas", *GRAPH) == {"r": 0, "s": 2, "l": 3, "after_s": 8, "after_l": 9, "join": 10}


def test_exact_atlas_counts_the_longest_path_through_the_parents() -> None:
    assert levels("atlas_exact", *GRAPH) == {"r": 0, "s": 2, "l": 2, "after_s": 3, "after_l": 7, "join": 8}


def test_scalar_atlas_counts_the_longest_path_known_when_the_call_arrives() -> None:
    """s is over before l arrives, so l inherits it, and all later calls inherit the path through l."""
    assert levels("atlas", *GRAPH) == {"r": 0, "s": 2, "l": 3, "after_s": 8, "after_l": 9, "join": 10}


def test_scalar_atlas_keeps_parallel_calls_together_where_plas_counts_them_one_by_one() -> None:
    shell = Shell(policy="atlas", quanta_s=UNIT_LEVELS_S)
    shell.serve("r", 2.0)
    for branch in ("s", "l"):
        assert [p.level for p in shell.arrive(branch)] == [2]
    shell.step(1.0, "s", "l")
    shell.finish("s")
    shell.step(4.0, "l")
    shell.finish("l")
    assert shell.row().critical_path_s == 7.0
    assert shell.row().service_s == 8.0
    assert [p.level for p in shell.arrive("after_s")] == [7]


def test_mlfq_knows_nothing_of_programs() -> None:
    assert set(levels("mlfq", *GRAPH).values()) == {0}


@pytest.mark.parametrize("parents", [None, ("never_seen",)])
def test_exact_atlas_falls_back_to_the_scalar_where_parents_are_unknown(parents: tuple[str, ...] | None) -> None:
    assert levels("atlas_exact", *GRAPH, ("orphan", 1.0, parents))["orphan"] == 11


def test_exact_atlas_places_a_late_root_call_first() -> None:
    assert levels("atlas_exact", *GRAPH, ("second_root", 1.0, ()))["second_root"] == 0


def test_exact_atlas_counts_a_parent_that_still_runs_by_its_service_so_far() -> None:
    shell = Shell(policy="atlas_exact", quanta_s=UNIT_LEVELS_S)
    shell.serve("r", 2.0, parents=())
    shell.arrive("running", parents=("r",))
    shell.step(3.0, "running")
    assert [p.level for p in shell.arrive("child", parents=("running", "r"))] == [5]


@pytest.mark.parametrize(("policy", "level"), [("plas", 6), ("atlas", 4), ("atlas_exact", 3), ("mlfq", 0)])
def test_attained_service_from_a_wider_table_decides(policy: str, level: int) -> None:
    shell = Shell(policy=policy, quanta_s=UNIT_LEVELS_S)
    attained = Attained(service_s=6.0, critical_path_s=4.0, path_s=3.0)
    assert [p.level for p in shell.arrive("a", parents=(), attained=attained)] == [level]


@pytest.mark.parametrize(
    ("service_s", "level"), [(0.0, 0), (0.999, 0), (1.0, 1), (2.999, 1), (3.0, 2), (6.999, 2), (7.0, 3), (1e9, 3)]
)
def test_a_level_holds_its_lower_bound_and_not_its_upper(service_s: float, level: int) -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0, 4.0))
    assert [p.level for p in shell.arrive("a", attained=Attained(service_s=service_s))] == [level]


def test_service_that_equals_a_quantum_but_for_rounding_enters_where_the_quantum_would_have_led() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0))
    shell.arrive("a")
    demotions = [p.level for _ in range(10) for p in shell.step(0.1, "a")]
    shell.finish("a")
    assert demotions == [1]
    assert shell.row().service_s != 1.0  # ten times 0.1 is not 1 in binary
    assert [p.level for p in shell.arrive("b")] == [1]


@pytest.mark.parametrize("policy", ["fcfs", "round_robin"])
def test_policies_of_one_level_place_every_call_there(policy: str) -> None:
    assert set(levels(policy, *GRAPH).values()) == {0}


def test_srpt_serves_the_program_with_the_least_work_left() -> None:
    shell = Shell(policy="srpt")
    shell.begin("long", total_work_s=10.0)
    shell.begin("short", total_work_s=8.0)
    shell.arrive("l", "long")
    shell.arrive("s", "short")
    assert shell.choose(1).run == ("s",)
    shell.step(3.0, "l")  # 7 s left against 8, though no call of either is over
    assert shell.choose(1).run == ("l",)


def test_srpt_without_the_total_work_is_a_clear_error() -> None:
    shell = Shell(policy="srpt")
    with pytest.raises(ConfigError, match=r"srpt needs the total work of program 'p'"):
        shell.arrive("a")


def test_real_engines_refuse_a_policy_that_needs_the_future() -> None:
    plas = make_policy(SchedulerConfig(policy="plas"))
    assert refuse_clairvoyant(plas) is plas
    with pytest.raises(ConfigError, match="SRPT"):
        refuse_clairvoyant(make_policy(SchedulerConfig(policy="srpt")))
