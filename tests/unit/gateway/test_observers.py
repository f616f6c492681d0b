"""Listeners are told in order, and one that fails harms neither the call nor the others."""

from __future__ import annotations

import logging

import pytest

from agentix.core.program import ProgramRow
from agentix.gateway.exchange import Call
from agentix.gateway.observer import Observer, Observers
from observed_calls import Calls


class Heard(Observer):
    """Writes down what it is told; fails at `fails_at`."""

    def __init__(self, heard: list[str], name: str, fails_at: str = "") -> None:
        self._heard, self._name, self._fails_at = heard, name, fails_at

    def _hear(self, what: str) -> None:
        self._heard.append(f"{self._name} {what}")
        if what == self._fails_at:
            raise RuntimeError("a fault")

    def arrived(self, call: Call, now: float) -> None:
        self._hear("arrived")

    def held(self, call: Call, reason: str, now: float) -> None:
        self._hear("held")

    def sent(self, call: Call, engine_id: str, now: float) -> None:
        self._hear("sent")

    def first_token(self, call: Call, now: float) -> None:
        self._hear("first_token")

    def over(self, call: Call, now: float) -> None:
        self._hear("over")

    def program_over(self, row: ProgramRow) -> None:
        self._hear("program_over")


def live(calls: Calls) -> None:
    call = calls.arrive("p", "1", 0.0)
    calls.observer.held(call, "why", 0.0)
    calls.send(call, "e", 0.0)
    calls.begin(call, 0.0)
    calls.end(call, 1.0)
    calls.end_program("p", 2.0)


WHOLE_LIFE = ("arrived", "held", "sent", "first_token", "over", "program_over")


def test_all_are_told_everything_in_order() -> None:
    heard: list[str] = []
    live(Calls(Observers([Heard(heard, "a"), Heard(heard, "b")])))
    assert heard == [f"{name} {what}" for what in WHOLE_LIFE for name in "ab"]


@pytest.mark.parametrize("fault", WHOLE_LIFE)
def test_one_that_fails_is_told_nothing_more(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    with caplog.at_level(logging.ERROR):
        live(Calls(Observers([Heard(heard, "a", fault), Heard(heard, "b")])))
    assert [h for h in heard if h[0] == "b"] == [f"b {what}" for what in WHOLE_LIFE]
    assert [h for h in heard if h[0] == "a"] == [f"a {what}" for what in WHOLE_LIFE[: WHOLE_LIFE.index(fault) + 1]]
    assert [r.getMessage() for r in caplog.records] == ["Heard has failed and is told nothing more"]


def test_a_listener_need_not_listen_to_anything() -> None:
    live(Calls(Observer()))
