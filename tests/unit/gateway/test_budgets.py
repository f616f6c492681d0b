"""Budgets: demote, then hold, then refuse; never more than the budget passes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.budgets import Budgets
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import scoped
from agentix.gateway.tenants import Budget, Tenant

P, Q = scoped("t", "p"), scoped("t", "q")


def budgets(program_budget: Budget | None = None, weight: float = 1.0, **limits: Any) -> Budgets:
    tenant = Tenant(
        name="t",
        key_digests=(b"k",),
        weight=weight,
        budget=Budget(**limits),
        program_budget=program_budget or Budget(),
    )
    return Budgets((tenant,))


class Gateway:
    """Drives budgets as the gateway does: check, hold until ready, send, over."""

    def __init__(self, budgets: Budgets) -> None:
        self.budgets = budgets
        self.num_calls = 0

    def arrive(self, now: float, program_id: str = P, tokens: int = 10) -> str:
        """A call that waits; its key."""
        self.num_calls += 1
        self.budgets.arrived(str(self.num_calls), "t", program_id, tokens, now)
        return str(self.num_calls)

    def send(self, now: float, program_id: str = P, tokens: int = 10) -> str:
        """A call that goes out at once."""
        key = self.arrive(now, program_id, tokens)
        self.budgets.sent(key, now)
        return key

    def serve(self, now: float, service_s: float = 1.0, program_id: str = P, tokens: int = 10, used: int | None = None) -> None:
        """A call that is over `service_s` after `now`."""
        self.budgets.over(self.send(now, program_id, tokens), service_s=service_s, tokens=used, now=now + service_s)


def refused(budgets: Budgets, now: float) -> HTTPError:
    with pytest.raises(HTTPError) as caught:
        budgets.check("t", P, now)
    assert (caught.value.status, caught.value.code, caught.value.kind) == (429, "budget_exceeded", "rate_limit_error")
    return caught.value


def test_without_limits_everything_passes() -> None:
    gateway = Gateway(budgets())
    for _ in range(1000):
        gateway.send(0.0)
    assert gateway.budgets.check("t", P, 0.0) == 0
    assert gateway.budgets.hold_until("t", P, 5.0) == 5.0
    assert gateway.budgets.check("", P, 0.0) == 0
    assert (gateway.budgets.tenant_weight("t"), gateway.budgets.tenant_weight("")) == (1.0, 1.0)
    assert budgets(weight=3.0).tenant_weight("t") == 3.0


def test_calls_are_demoted_then_held_then_refused() -> None:
    gateway = Gateway(budgets(calls_per_minute=10, max_hold_s=12.0))  # one comes back every 6 s
    b, seen = gateway.budgets, []
    for _ in range(10):
        seen.append((b.check("t", P, 0.0), b.hold_until("t", P, 0.0) <= 0.0))
        gateway.send(0.0)
    assert seen == [(0, True)] * 8 + [(1, True)] * 2
    assert (b.check("t", P, 0.0), b.hold_until("t", P, 0.0)) == (2, 6.0)
    first = gateway.arrive(0.0)
    assert b.check("t", P, 0.0) == 2  # behind it: 12 s
    second = gateway.arrive(0.0)
    error = refused(b, 0.0)
    assert error.retry_after_s == 18
    assert str(error) == "tenant 't' is over its budget of 10 calls a minute; there is room again in about 18 s"
    b.sent(first, 6.0)
    assert b.hold_until("t", P, 6.0) == 12.0
    assert b.check("t", P, 6.0) == 2
    b.over(second, service_s=0.0, tokens=None, now=6.0)  # its client went away: it has cost nothing
    assert b.hold_until("t", P, 6.0) == 12.0
    assert b.check("t", P, 60.0) == 0


def test_tokens_are_corrected_when_a_call_is_over() -> None:
    gateway = Gateway(budgets(tokens_per_minute=600, max_hold_s=20.0))  # ten a second
    b = gateway.budgets
    key = gateway.send(0.0, tokens=500)
    assert (b.check("t", P, 0.0), b.hold_until("t", P, 0.0) <= 0.0) == (1, True)
    b.over(key, service_s=1.0, tokens=700, now=0.0)
    assert (b.check("t", P, 0.0), b.hold_until("t", P, 0.0)) == (2, 10.0)
    gateway.serve(0.0, 0.0, tokens=300, used=None)  # nobody has counted: the estimate stands
    assert b.hold_until("t", P, 0.0) == 40.0
    assert "600 tokens a minute" in str(refused(b, 0.0))
    gateway.serve(40.0, 0.0, tokens=600, used=100)
    assert b.hold_until("t", P, 40.0) == 50.0


def test_tokens_of_those_that_wait_count_for_the_next() -> None:
    gateway = Gateway(budgets(tokens_per_minute=600, max_hold_s=20.0))
    for _ in range(4):
        gateway.arrive(0.0, tokens=200)
    assert gateway.budgets.check("t", P, 0.0) == 2
    gateway.arrive(0.0, tokens=100)
    assert refused(gateway.budgets, 0.0).retry_after_s == 30


def test_service_of_the_last_hour_is_bounded() -> None:
    gateway = Gateway(budgets(service_s_per_hour=100.0, max_hold_s=3600.0))
    b = gateway.budgets
    gateway.serve(0.0, 50.0)
    assert b.check("t", P, 50.0) == 0
    gateway.serve(50.0, 40.0)
    assert (b.check("t", P, 90.0), b.hold_until("t", P, 90.0)) == (1, 90.0)
    gateway.serve(90.0, 10.0)
    assert (b.check("t", P, 100.0), b.hold_until("t", P, 100.0)) == (2, 3660.0)  # what ended in the first minute goes
    assert b.hold_until("t", P, 3660.0) == 3660.0


def test_calls_under_way_count_as_much_as_those_before_them() -> None:
    gateway = Gateway(budgets(service_s_per_hour=100.0, max_hold_s=3700.0))
    b = gateway.budgets
    for _ in range(200):  # calls of no service: that is the mean
        gateway.serve(0.0, 0.0)
    gateway.serve(0.0, 95.0)
    gateway.send(95.0)  # expected to take 0.2 * 95 s
    assert b.hold_until("t", P, 95.0) == math.inf
    assert b.check("t", P, 95.0) == 2


def test_calls_at_a_time_are_held_until_one_is_over() -> None:
    gateway = Gateway(budgets(concurrent_calls=2, max_hold_s=12.0))
    b = gateway.budgets
    key = gateway.send(0.0)
    assert b.hold_until("t", P, 0.0) == 0.0
    gateway.send(0.0)
    assert (b.hold_until("t", P, 0.0), b.check("t", P, 0.0)) == (math.inf, 0)
    for _ in range(3):
        gateway.arrive(0.0)
    assert b.check("t", P, 0.0) == 0  # two rounds of 5 s, which is what calls are taken to last at first
    gateway.arrive(0.0)
    assert refused(b, 0.0).retry_after_s == 15
    b.over(key, service_s=1.0, tokens=None, now=1.0)
    assert b.hold_until("t", P, 1.0) == 1.0
    assert b.check("t", P, 1.0) == 0  # calls last 4.2 s in the mean by now


def test_a_program_has_a_budget_of_its_own() -> None:
    gateway = Gateway(budgets(Budget(calls_per_minute=1, max_hold_s=0.0)))
    b = gateway.budgets
    gateway.send(0.0)
    assert str(refused(b, 0.0)).startswith("program 'p' is over its budget of 1 calls a minute")
    assert b.check("t", Q, 0.0) == 0
    assert b.check("t", "", 0.0) == 0
    assert b.hold_until("t", Q, 0.0) == 0.0
    assert b.hold_until("t", P, 0.0) == 60.0


def test_the_accounts_of_programs_are_forgotten_once_they_are_as_good_as_new() -> None:
    gateway = Gateway(budgets(Budget(calls_per_minute=60)))
    waits = gateway.arrive(0.0, scoped("t", "waits"))
    for number in range(5000):
        gateway.serve(float(number), 0.1, scoped("t", str(number)))
    assert len(gateway.budgets._programs) <= 2048
    gateway.budgets.sent(waits, 5000.0)
    assert gateway.budgets.hold_until("t", scoped("t", "waits"), 5000.0) <= 5000.0
    assert scoped("t", "waits") in gateway.budgets._programs


def test_a_call_for_several_answers_is_several_calls() -> None:
    gateway = Gateway(budgets(calls_per_minute=10, concurrent_calls=4, service_s_per_hour=100.0, max_hold_s=3600.0))
    b = gateway.budgets
    with pytest.raises(HTTPError, match="tenant 't' may have 4 answers at a time; the call asks for 5") as caught:
        b.check("t", P, 0.0, num_calls=5)
    assert (caught.value.status, caught.value.param) == (400, "n")
    b.arrived("many", "t", P, 10, 0.0, num_calls=4)
    b.sent("many", 0.0)
    assert b.hold_until("t", P, 0.0) == math.inf
    b.over("many", service_s=20.0, tokens=None, now=20.0)
    assert b.check("t", P, 20.0) == 1  # 80 of 100 s: 20 s for each answer; 4 of 10 calls, of which 20 / 6 are back
    b.arrived("waits", "t", P, 10, 20.0, num_calls=4)
    assert b._accounts["t"].num_waiting == 4
    b.sent("waits", 20.0)
    b.put_back("waits", 20.0)
    assert (b._accounts["t"].num_waiting, b._accounts["t"].num_running) == (4, 0)
    b.over("waits", service_s=0.0, tokens=None, now=20.0)
    assert (b._accounts["t"].num_waiting, b._accounts["t"].num_running) == (0, 0)


def tenant(name: str, budget: Budget, program_budget: Budget | None = None) -> Tenant:
    return Tenant(name=name, key_digests=(b"k",), budget=budget, program_budget=program_budget or Budget(), weight=3.0)


def test_of_a_limit_that_changes_the_same_share_is_used_up() -> None:
    gateway = Gateway(budgets(Budget(calls_per_minute=2, max_hold_s=0.0), calls_per_minute=10, tokens_per_minute=100))
    b = gateway.budgets
    running = gateway.send(0.0, tokens=20)  # half of its program's calls, a tenth of the tenant's, a fifth of its tokens
    b.adopt((tenant("t", Budget(calls_per_minute=100, concurrent_calls=1), Budget(calls_per_minute=4, max_hold_s=0.0)),))
    account, program = b._accounts["t"], b._programs[P]
    assert (account.share(0.0), program.share(0.0)) == (0.1, 0.5)
    assert b.hold_until("t", Q, 0.0) == math.inf  # the one under way counts for the new limit too
    assert b.tenant_weight("t") == 3.0
    b.over(running, service_s=1.0, tokens=None, now=0.0)
    assert b.hold_until("t", Q, 0.0) == 0.0
    b.adopt((tenant("u", Budget(calls_per_minute=1)),))
    assert (b.is_limited("t"), b.is_limited("u")) == (False, True)
    assert b.check("t", P, 0.0) == 0
    assert b._programs == {}


def test_calls_of_a_tenant_that_is_gone_end_without_ado() -> None:
    gateway = Gateway(budgets(Budget(concurrent_calls=1), concurrent_calls=1))
    running, waits = gateway.send(0.0), gateway.arrive(0.0)
    gateway.budgets.adopt((tenant("u", Budget()),))
    gateway.budgets.sent(waits, 1.0)
    for key in (running, waits):
        gateway.budgets.over(key, service_s=1.0, tokens=5, now=2.0)
    assert gateway.budgets._uses == {}


def test_being_told_twice_changes_nothing() -> None:
    gateway = Gateway(budgets(calls_per_minute=2))
    key = gateway.send(0.0)
    gateway.budgets.sent(key, 0.0)  # to another engine
    assert gateway.budgets.hold_until("t", P, 0.0) <= 0.0
    for _ in range(2):
        gateway.budgets.over(key, service_s=1.0, tokens=None, now=0.0)
    gateway.budgets.sent(key, 0.0)
    gateway.send(0.0)
    assert gateway.budgets.hold_until("t", P, 0.0) == 30.0


@given(
    st.sampled_from([1, 2, 3, 4, 5, 6, 10, 12, 15, 20]),  # so that one comes back in a whole number of seconds
    st.floats(0.05, 1.0),
    st.floats(0, 60),
    st.sampled_from(["calls_per_minute", "tokens_per_minute"]),
)
def test_the_closer_to_the_budget_the_less_is_granted(limit: int, soft: float, max_hold_s: float, name: str) -> None:
    """At one moment: first unchanged, then demoted, then held, then refused; never back, and no step is left out."""
    limits: dict[str, Any] = {name: limit, "soft": soft, "max_hold_s": max_hold_s}
    gateway = Gateway(budgets(**limits))
    b, seen = gateway.budgets, []
    for _ in range(4 * limit):
        try:
            levels = b.check("t", P, 0.0)
        except HTTPError:
            seen.append(4)
            continue
        key = gateway.arrive(0.0, tokens=1)
        held = b.hold_until("t", P, 0.0) > 0.0
        if not held:
            b.sent(key, 0.0)
        seen.append(3 if held else min(levels, 2))
    assert seen == sorted(seen)
    assert seen.count(0) == sum(used / limit < soft for used in range(limit))
    num_sent = limit if name == "calls_per_minute" else limit + 1  # tokens: until they are overdrawn
    assert sum(step < 3 for step in seen) == num_sent


steps = st.lists(st.tuples(st.floats(0, 20), st.sampled_from("pq"), st.integers(0, 3)), max_size=80)


@given(st.integers(1, 8), st.integers(1, 4), steps)
def test_never_more_than_the_budget_passes(
    calls_per_minute: int, concurrent_calls: int, steps: list[tuple[float, str, int]]
) -> None:
    """Calls that are sent when they may be, in any order and of any length, keep within every limit."""
    gateway = Gateway(budgets(Budget(concurrent_calls=1), calls_per_minute=calls_per_minute, concurrent_calls=concurrent_calls))
    b, now, sent = gateway.budgets, 0.0, []
    running: dict[str, str] = {}
    for pause_s, name, num_over in steps:
        now, program_id = now + pause_s, scoped("t", name)
        for key in list(running)[:num_over]:
            del running[key]
            b.over(key, service_s=1.0, tokens=None, now=now)
        if b.hold_until("t", program_id, now) <= now:
            running[gateway.send(now, program_id)] = program_id
            sent.append(now)
        assert len(running) <= concurrent_calls
        assert len(set(running.values())) == len(running)
    for i, first in enumerate(sent):
        for num, last in enumerate(sent[i:], start=1):
            assert num <= calls_per_minute * (1 + (last - first) / 60) + 1e-6
