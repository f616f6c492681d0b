"""Service shared between tenants: histories worked out by hand, and what must hold for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import InvalidTransition
from agentix.core.fair_share import FairShare


def shares(**weights: float) -> FairShare:
    """Tenants with a call each that waits since 0 s."""
    fair = FairShare()
    for tenant, weight in weights.items():
        fair.arrived(tenant, weight, 0.0)
    return fair


def test_a_running_call_adds_a_second_a_second_over_the_weight() -> None:
    fair = shares(a=1.0, b=2.0)
    fair.started("a", 0.0)
    fair.started("b", 0.0)
    assert (fair.attained_s("a", 6.0), fair.attained_s("b", 6.0)) == (6.0, 3.0)
    fair.arrived("a", 1.0, 6.0)
    fair.started("a", 6.0)
    assert fair.attained_s("a", 8.0) == 6.0 + 2 * 2.0
    fair.stopped("a", 8.0)
    fair.left("a")
    assert fair.attained_s("a", 9.0) == 10.0 + 1.0


def test_the_least_attained_goes_first_and_in_a_tie_who_runs_the_least() -> None:
    fair = shares(a=1.0, b=1.0)
    assert fair.turn(["b", "a"], 0.0) == "a", "a tie in everything is broken by name"
    fair.started("a", 0.0)
    assert fair.turn(["a", "b"], 0.0) == "b", "nobody has attained anything yet, but a has a call running"
    assert fair.turn(["a", "b"], 1.0) == "b"
    fair.started("b", 1.0)
    fair.stopped("a", 4.0)
    assert (fair.attained_s("a", 4.0), fair.attained_s("b", 4.0)) == (4.0, 3.0)
    assert fair.turn(["a", "b"], 4.5) == "b", "3.5 s against 4 s"
    assert fair.turn(["a", "b"], 6.0) == "a", "5 s against 4 s"


def test_who_was_idle_has_banked_nothing() -> None:
    fair = shares(a=1.0, b=1.0)
    fair.started("a", 0.0)
    fair.started("b", 0.0)
    fair.stopped("b", 2.0)
    fair.left("b")
    fair.arrived("c", 1.0, 100.0)
    assert fair.attained_s("c", 100.0) == 100.0, "the least of those that are active, which is a's"
    fair.arrived("b", 1.0, 100.0)
    assert fair.attained_s("b", 100.0) == 100.0


def test_what_a_tenant_had_beyond_the_others_stays_with_it() -> None:
    fair = shares(a=1.0, b=1.0)
    fair.started("a", 0.0)
    fair.stopped("a", 50.0)
    fair.left("a")  # for a moment
    fair.arrived("a", 1.0, 50.0)
    assert fair.attained_s("a", 50.0) == 50.0
    assert fair.turn(["a", "b"], 50.0) == "b"


def test_when_nobody_was_active_all_begin_level() -> None:
    fair = shares(a=1.0)
    fair.started("a", 0.0)
    fair.stopped("a", 1000.0)
    fair.left("a")
    fair.arrived("new", 1.0, 2000.0)
    fair.arrived("a", 1.0, 2000.0)
    assert fair.attained_s("new", 2000.0) == fair.attained_s("a", 2000.0) == 1000.0, "no debt of a time when a was alone"


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_must_be_positive(weight: float) -> None:
    with pytest.raises(InvalidTransition, match="weight of tenant 'a'"):
        FairShare().arrived("a", weight, 0.0)


@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=4),
    st.integers(1, 4),
    st.lists(st.floats(0.1, 3.0), min_size=40, max_size=120),
)
def test_tenants_that_always_wait_share_by_weight(weights: list[float], num_slots: int, lengths_s: list[float]) -> None:
    """No two accounts are ever further apart than what the calls that run at once add to them."""
    fair, now, longest_s = FairShare(), 0.0, max(lengths_s)
    tenants = {str(n): weight for n, weight in enumerate(weights)}
    running: list[tuple[float, str]] = []
    for tenant, weight in tenants.items():
        fair.arrived(tenant, weight, 0.0)
    for length_s in lengths_s:
        if len(running) == num_slots:
            running.sort()
            now, ended = running.pop(0)
            fair.stopped(ended, now)
            fair.left(ended)
        tenant = fair.turn(tenants, now)
        fair.arrived(tenant, tenants[tenant], now)  # it has more calls than can ever be served
        fair.started(tenant, now)
        running.append((now + length_s, tenant))
        fair.validate()
        accounts = {t: fair.attained_s(t, now) for t in tenants}
        assert accounts[tenant] == min(accounts.values())
        apart = max(accounts.values()) - min(accounts.values())
        assert apart <= num_slots * longest_s / min(weights) + 1e-6
