"""Programs held back on an engine that has many: how often the policy is asked, about whom, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentix.core import ProgramRow, SchedulingPolicy
from agentix.core import holding as module
from agentix.core.capacity import EngineCapacity
from core_shell import Shell


class Keeps100(SchedulingPolicy):
    """Holds back all but the first 100 that it is asked about; remembers what it was asked."""

    holds_programs = True

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        ids = [row.program_id for row in rows]
        ASKED.append((len(ids), len(held), capacity.prefill_s_per_token))
        return frozenset(ids[100:])


ASKED: list[tuple[int, int, float]] = []


@pytest.fixture
def shell() -> Shell:
    """600 programs with a call each; the policy has been asked once, at 0 s, and p0 runs."""
    shell = Shell(policy=f"{__name__}:Keeps100", capacity_tokens=1000)
    capacity = shell.scheduler.holding.capacity
    assert capacity is not None
    capacity.prefill_s_per_token = 0.5
    for i in range(600):
        shell.arrive(f"c{i}", f"p{i}")
    ASKED.clear()
    shell.choose(1)
    shell.start("c0")
    return shell


def held(shell: Shell) -> frozenset[str]:
    shell.scheduler.validate()
    return shell.scheduler.holding.held


def test_in_a_crowd_the_policy_is_asked_about_those_let_in_and_the_first_of_the_others(shell: Shell) -> None:
    """600 x 0.2 ms = 0.12 s. Then about 100 + 256; each of these stands for 601/356 calls that wait while one computes."""
    assert ASKED == [(600, 0, 0.5)]
    assert held(shell) == {f"p{i}" for i in range(100, 600)}
    shell.arrive("n", "new")
    assert "new" in held(shell)
    shell.wait(0.119)
    shell.choose(1)
    assert len(ASKED) == 1
    shell.wait(0.002)
    shell.choose(1)
    (asked,) = ASKED[1:]
    assert asked == pytest.approx((356, 256, 0.5 * 601 / 356))
    assert held(shell) == {f"p{i}" for i in range(100, 600)} | {"new"}


def test_room_that_becomes_free_goes_to_the_first_that_is_held_back(shell: Shell) -> None:
    shell.finish("c0")
    shell.end("p0")
    shell.start("c1")
    shell.wait(0.2)
    assert "c100" in shell.choose(101).run
    assert held(shell) == {f"p{i}" for i in range(101, 600)}
    assert (shell.scheduler.holding.num_held_back, shell.scheduler.holding.num_let_go) == (500, 1)


def test_an_answer_holds_until_a_call_comes_or_goes(shell: Shell) -> None:
    shell.wait(100.0)
    shell.choose(1)
    assert len(ASKED) == 1


def test_an_idle_engine_asks_at_once_and_lets_the_first_go_that_is_ready(shell: Shell) -> None:
    """All that were let in have gone, within 0.12 s: it is asked about 256 others, of which 100 are let in."""
    for i in range(100):
        shell.abort(f"c{i}")
        shell.end(f"p{i}")
    assert shell.choose(2).run == ("c100", "c101")
    (asked,) = ASKED[1:]
    assert asked == pytest.approx((256, 256, 0.5 * 500 / 256))
    assert len(held(shell)) == 400


def test_programs_that_are_over_are_forgotten_though_nobody_asks_about_them(shell: Shell) -> None:
    """p500 to p599 end while they are held back and not among the first; as many calls come and go as programs are here."""
    for i in range(500, 600):
        shell.abort(f"c{i}")
        shell.end(f"p{i}")
    for i in range(300):
        shell.arrive(f"d{i}", "p1")
        shell.abort(f"d{i}")
    shell.wait(1.0)
    shell.choose(1)
    assert held(shell) == {f"p{i}" for i in range(100, 500)}


def test_few_programs_are_asked_about_each_time() -> None:
    """As many as make no crowd: a change of contexts or of time may change the answer."""
    shell = Shell(policy=f"{__name__}:Keeps100", capacity_tokens=1000)
    for i in range(module._CROWD):
        shell.arrive(f"c{i}", f"p{i}")
    ASKED.clear()
    for _ in range(3):
        shell.choose(1)
    assert [num_rows for num_rows, _, _ in ASKED] == [module._CROWD] * 3


def test_where_nobody_is_held_back_nobody_asks_until_a_call_comes_or_goes() -> None:
    shell = Shell(policy=f"{__name__}:Keeps100", capacity_tokens=1000)
    shell.arrive("c", "p")
    ASKED.clear()
    for _ in range(3):
        shell.choose(1)
    shell.arrive("d", "q")
    shell.choose(1)
    assert [num_rows for num_rows, _, _ in ASKED] == [1, 2]
