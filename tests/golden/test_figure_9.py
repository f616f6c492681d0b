"""Figure 9 of the paper: one program that forks and joins, on two slots. The order of siblings decides its makespan.

r = 2 steps; after r: a = 4, c = 5, d = 2, e = 1; after a: b = 4; after b, c, d and e: z = 1. The figure prints the makespans
11 and 14; this graph is one that has both. Its critical path r, a, b, z takes 11 steps.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from agentix.core import CallRow, ProgramRow, SchedulerConfig, SchedulingPolicy
from step_engine import Program, Work, run

SIBLINGS = {"a": Work(4, ("r",)), "c": Work(5, ("r",)), "d": Work(2, ("r",)), "e": Work(1, ("r",))}
JOIN = {"b": Work(4, ("a",)), "z": Work(1, ("b", "c", "d", "e"))}
GRAPH: Program = {"r": Work(2), **SIBLINGS, **JOIN}
ORDERS = [tuple(order) for order in permutations(SIBLINGS)]
STEPS_S = (1.0, 2.0, 4.0, 8.0)
UNINTERRUPTED_S = (16.0,)


def path_to_end(call_id: str) -> int:
    """Steps of the longest path that starts with the call: what only a clairvoyant knows."""
    after = (path_to_end(child) for child, work in GRAPH.items() if call_id in work.parents)
    return GRAPH[call_id].steps + max(after, default=0)


class LongestPathFirst(SchedulingPolicy):
    """Clairvoyant: the call whose longest path to the end of the program is longest."""

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return -path_to_end(call.call_id)


class CriticalCallLast(SchedulingPolicy):
    """Adversarial: the call on the critical path after all its siblings."""

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return "rcdeabz".index(call.call_id)


def makespan_s(policy: str, siblings: tuple[str, ...], quanta_s: tuple[float, ...] = STEPS_S) -> int:
    """Makespan of the program if its siblings arrive in this order."""
    program: Program = {"r": GRAPH["r"], **{call: SIBLINGS[call] for call in siblings}, **JOIN}
    config = SchedulerConfig(policy=policy, quanta_s=quanta_s, starvation_ratio=None)
    return run(config, {"program": program}, num_slots=2).makespan_s


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_the_longest_path_first_takes_as_long_as_the_critical_path(order: tuple[str, ...]) -> None:
    assert makespan_s(f"{__name__}:LongestPathFirst", order) == 11 == path_to_end("r")


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_the_critical_call_last_takes_14(order: tuple[str, ...]) -> None:
    assert makespan_s(f"{__name__}:CriticalCallLast", order) == 14


@pytest.mark.parametrize("policy", ["atlas", "atlas_exact"])
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_atlas_knows_only_the_past_so_the_order_of_the_longest_siblings_decides(policy: str, order: tuple[str, ...]) -> None:
    """a, c, d and e tie at p = 2. Sliced by quanta, only whether a or c comes first makes a difference."""
    assert makespan_s(policy, order) == (12 if order.index("a") < order.index("c") else 13)


@pytest.mark.parametrize("policy", ["atlas", "atlas_exact"])
def test_atlas_without_interruption_follows_the_order_of_arrival(policy: str) -> None:
    makespans_s = {"".join(order): makespan_s(policy, order, UNINTERRUPTED_S) for order in ORDERS}
    assert {order for order, m in makespans_s.items() if m == 11} == {"adec", "aedc", "daec", "eadc"}
    assert {order for order, m in makespans_s.items() if m == 14} == {"cdea", "ceda", "dcea", "ecda"}
    assert makespans_s == {"".join(order): makespan_s("fcfs", order) for order in ORDERS}


@pytest.mark.parametrize("policy", ["atlas", "atlas_exact"])
@pytest.mark.parametrize("quanta_s", [STEPS_S, UNINTERRUPTED_S, (1.0,), (2.0, 4.0, 8.0), (3.0, 3.0)])
def test_atlas_stays_between_the_best_and_the_worst_order(policy: str, quanta_s: tuple[float, ...]) -> None:
    assert all(11 <= makespan_s(policy, order, quanta_s) <= 14 for order in ORDERS)
