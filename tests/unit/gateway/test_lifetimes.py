"""When programs are taken to be over, and what becomes of those that come back."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.core import ProcessTable
from agentix.core.events import Attained, CallArrived, CallFinished
from agentix.gateway.identity import scoped, split_scoped
from agentix.gateway.lifetimes import Lifetimes


class Clock:
    """A table whose programs make calls of one second each."""

    def __init__(self, **settings: Any) -> None:
        self.table = ProcessTable()
        self.lifetimes = Lifetimes(self.table, **{"max_idle_s": 1000.0, **settings})
        self.now = 0.0

    def call(self, program_id: str, *, anonymous: bool = False) -> Attained | None:
        attained = self.lifetimes.resume(program_id, self.now)
        self.table.apply(CallArrived(now=self.now, call_id="c", program_id=program_id, attained=attained))
        self.now += 1
        self.table.apply(CallFinished(now=self.now, call_id="c", service_s=0.75, waiting_s=0.25))
        self.lifetimes.rest(program_id, self.now, anonymous=anonymous)
        return attained

    def wait(self, duration_s: float) -> None:
        self.now += duration_s
        self.lifetimes.expire(self.now)
        self.table.validate()


def test_an_idle_program_ends_and_goes_on_from_its_totals() -> None:
    clock = Clock()
    clock.call("p")
    clock.wait(1000.0)
    assert list(clock.table.rows) == ["p"]
    clock.wait(0.5)
    assert list(clock.table.rows) == []
    assert clock.call("p") == Attained(service_s=0.75, waiting_s=0.25, critical_path_s=0.75)
    assert clock.table.row("p").service_s == 1.5
    assert clock.call("p") is None


def test_a_program_that_was_ended_begins_anew() -> None:
    clock = Clock()
    clock.call("p")
    clock.lifetimes.end("p", clock.now)
    assert clock.call("p") is None
    assert clock.table.row("p").service_s == 0.75
    clock.lifetimes.end("nobody", clock.now)


def test_a_program_with_an_active_call_is_not_idle() -> None:
    clock = Clock()
    clock.table.apply(CallArrived(now=0.0, call_id="slow", program_id="p"))
    clock.call("p")
    clock.wait(5000.0)
    assert list(clock.table.rows) == ["p"]


def test_the_limit_is_learned_from_the_gaps_of_programs_that_came_back() -> None:
    clock = Clock()
    for _ in range(100):
        clock.call("p")
        clock.now += 20
    clock.wait(0)
    assert clock.lifetimes.limit_s == 1000, "99 gaps are too few to learn from"
    clock.call("p")
    clock.wait(0)
    assert clock.lifetimes.limit_s == 80  # four times 20
    clock.call("q")
    clock.wait(81)
    assert list(clock.table.rows) == []


def test_programs_that_came_back_too_late_raise_the_limit() -> None:
    clock = Clock()
    for _ in range(150):
        clock.call("p")
        clock.now += 1
    clock.wait(0)
    assert clock.lifetimes.limit_s == 60  # never less
    for _ in range(12):
        clock.wait(200)
        clock.call("p")
    clock.wait(0)
    assert clock.lifetimes.limit_s == 800


def test_of_programs_that_nobody_named_only_so_many_are_kept() -> None:
    clock = Clock(max_anonymous=3)
    clock.call("named")
    for number in range(6):
        clock.call(f"a{number}", anonymous=True)
    assert list(clock.table.rows) == ["named", "a3", "a4", "a5"]
    clock.call("a3")  # it was not a single call after all
    for number in range(6, 9):
        clock.call(f"a{number}", anonymous=True)
    assert list(clock.table.rows) == ["named", "a3", "a6", "a7", "a8"]


@pytest.mark.parametrize("num_programs", [10])
def test_what_is_remembered_of_ended_programs_is_bounded(num_programs: int) -> None:
    clock = Clock(max_anonymous=3)
    for number in range(num_programs):
        clock.call(f"p{number}")
    clock.wait(5000)
    assert len(clock.lifetimes._ended) == 3
    assert clock.call("p0") is None
    assert clock.call("p9") is not None


def test_the_last_row_of_every_program_is_told_once() -> None:
    rows: list[tuple[str, int]] = []
    clock = Clock(on_over=lambda row: rows.append((row.program_id, row.num_finished)))
    clock.call("idle")
    clock.call("busy")
    clock.table.apply(CallArrived(now=clock.now, call_id="c2", program_id="busy"))
    clock.lifetimes.end("busy", clock.now)
    assert rows == []  # a call of it goes on
    clock.table.apply(CallFinished(now=clock.now, call_id="c2"))
    assert rows == [("busy", 2)]
    clock.lifetimes.end("busy", clock.now)
    clock.wait(1001.0)
    assert rows == [("busy", 2), ("idle", 1)]
    clock.call("idle")  # it comes back, as a program with calls of its own to count
    clock.lifetimes.end("idle", clock.now)
    assert rows[2:] == [("idle", 1)]


def test_each_tenant_has_so_many_idle_programs_and_the_longest_idle_go_first() -> None:
    clock = Clock(max_idle=3)
    for name in "abc":
        clock.call(scoped("t", name))
    clock.call(scoped("u", "a"))
    clock.call(scoped("t", "a"))  # is used again
    clock.lifetimes.resume(scoped("t", "c"), clock.now)  # is in use
    for name in "de":
        clock.call(scoped("t", name))
    left = [(tenant, name) for tenant, name in map(split_scoped, clock.table.rows)]
    assert left == [("t", "a"), ("t", "c"), ("u", "a"), ("t", "d"), ("t", "e")]
    assert clock.call(scoped("t", "b")) == Attained(service_s=0.75, waiting_s=0.25, critical_path_s=0.75)  # it goes on
    for name in "ade":
        clock.lifetimes.end(scoped("t", name), clock.now)
    clock.lifetimes.end(scoped("u", "a"), clock.now)
    assert list(clock.lifetimes._idle_of) == ["t"]
