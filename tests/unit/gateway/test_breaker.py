"""The circuit breaker: sequences worked out by hand, and what holds for every sequence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.breaker import Breaker, BreakerSettings


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    assert [breaker.failed(now, program) for program in "abc"] == [False, False, True]
    return breaker


def test_three_programs_that_fail_open_it_for_a_second() -> None:
    breaker = opened(now=5.0)
    assert (breaker.allows(5.9), breaker.state(5.9), breaker.opens_for_s(5.25)) == (False, "open", 0.75)
    assert (breaker.allows(6.0), breaker.state(6.0), breaker.opens_for_s(6.0)) == (True, "half_open", 0.0)


def test_a_success_between_failures_starts_the_count_anew() -> None:
    breaker = Breaker()
    breaker.failed(0.0, "a")
    breaker.failed(0.0, "b")
    breaker.succeeded(0.0)
    assert not breaker.failed(0.0, "c")
    assert breaker.state(0.0) == "closed"


def test_one_program_alone_never_opens_it() -> None:
    breaker = Breaker()
    assert not any(breaker.failed(0.0, program) for program in "ab" * 100)
    assert breaker.allows(0.0)


def test_a_probe_that_fails_doubles_the_wait_and_one_that_succeeds_resets_it() -> None:
    breaker = opened()
    ticket = breaker.sent(1.0)
    assert (ticket, breaker.allows(1.0), breaker.state(1.0), breaker.opens_for_s(1.0)) == (1, False, "half_open", 10.0)
    assert breaker.failed(1.5, "d", ticket, jitter=1.0)
    assert (breaker.allows(4.4), breaker.allows(4.5)) == (False, True)  # 2 s, and half as much again of jitter
    assert breaker.failed(5.0, "d", breaker.sent(4.5))
    assert (breaker.allows(8.9), breaker.allows(9.0)) == (False, True)
    assert breaker.succeeded(9.5, breaker.sent(9.0))
    assert breaker.state(9.5) == "closed"
    for program in "abc":
        breaker.failed(10.0, program)
    assert (breaker.allows(10.9), breaker.allows(11.0)) == (False, True)


def test_the_wait_has_a_bound() -> None:
    breaker, now = opened(), 1.0
    for _ in range(20):
        breaker.failed(now, "a", breaker.sent(now))
        now += 30.0
        assert breaker.allows(now)


def test_a_large_share_of_failures_opens_it_although_some_calls_succeed() -> None:
    breaker = Breaker()
    opened_at = []
    for n in range(6):  # of the calls that were noted by then, 1 of 1, 2 of 3, … 5 of 9 and 6 of 11 have failed
        opened_at.append(breaker.failed(float(n), f"p{n}"))
        breaker.succeeded(float(n))
    assert opened_at == [False] * 5 + [True]


def test_what_is_long_ago_counts_no_more() -> None:
    breaker = Breaker()
    for n in range(20):
        assert not breaker.failed(31.0 * n, f"p{n}")
        breaker.succeeded(31.0 * n)


def test_a_probe_whose_client_leaves_makes_room_for_another() -> None:
    breaker = opened()
    breaker.abandoned(breaker.sent(1.0))
    assert breaker.allows(1.0)
    assert breaker.sent(1.0) == 2


def test_a_probe_that_lives_long_enough_is_a_success() -> None:
    breaker = opened()
    ticket = breaker.sent(1.0)
    assert (breaker.allows(10.9), breaker.allows(11.0), breaker.state(11.0)) == (False, True, "closed")
    assert not breaker.failed(12.0, "d", ticket)  # by then it is a call like any other


def test_results_of_calls_sent_before_it_opened_change_nothing() -> None:
    breaker = opened()
    assert not breaker.succeeded(0.5)
    assert not breaker.failed(0.5, "d")
    assert (breaker.allows(0.9), breaker.allows(1.0)) == (False, True)


@pytest.mark.parametrize("num_programs", [1, 3])
@given(
    steps=st.lists(
        st.tuples(st.floats(0, 3), st.sampled_from(["send", "fail", "succeed", "leave"]), st.integers(0, 3), st.floats(0, 1)),
        max_size=80,
    )
)
def test_never_two_probes_and_nothing_before_its_time(num_programs: int, steps: list[tuple[float, str, int, float]]) -> None:
    settings = BreakerSettings(num_programs=num_programs)
    breaker, now, open_since = Breaker(settings), 0.0, None
    out: list[tuple[int, float]] = []  # tickets of calls under way, and when they were sent
    for wait_s, what, index, jitter in steps:
        now += wait_s
        if what == "send":
            allowed, state = breaker.allows(now), breaker.state(now)
            assert allowed == (breaker.opens_for_s(now) == 0)
            ticket = breaker.sent(now) if allowed or index == 0 else 0  # index 0: a caller who does not ask
            assert bool(ticket) == (allowed and state == "half_open")
            if ticket:
                assert open_since is not None
                assert now >= open_since + settings.backoff_s
                assert not any(t and now - sent_s < settings.probe_s for t, sent_s in out)
            if allowed:
                out.append((ticket, now))
        elif out:
            ticket, _ = out.pop(index % len(out))
            if what == "fail":
                open_since = now if breaker.failed(now, f"p{index}", ticket, jitter=jitter) else open_since
            elif what == "succeed":
                breaker.succeeded(now, ticket)
            else:
                breaker.abandoned(ticket)
