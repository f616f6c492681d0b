"""What budgets are counted with: never more than there is, and back exactly when it should be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.buckets import Bucket, Window

pauses = st.lists(st.floats(0, 30), max_size=60)


def test_a_bucket_holds_a_minute_s_worth_and_refills_evenly() -> None:
    bucket = Bucket(6)  # one comes back every 10 s
    for _ in range(6):
        assert bucket.ready_at(1, 100.0) <= 100.0
        bucket.take(1, 100.0)
    assert bucket.used(100.0) == 1.0
    assert bucket.ready_at(1, 100.0) == 110.0
    assert bucket.ready_at(3, 100.0) == 130.0
    assert bucket.ready_at(7, 100.0) == 170.0  # more than it holds: when so many would have come back
    assert bucket.used(115.0) == 0.75
    bucket.take(1, 115.0)
    assert bucket.ready_at(1, 115.0) == 120.0
    assert bucket.used(1000.0) == 0.0
    assert bucket.ready_at(6, 1000.0) == 1000.0


def test_what_is_overdrawn_is_paid_off_first() -> None:
    bucket = Bucket(60)
    bucket.take(90, 0.0)
    assert (bucket.used(0.0), bucket.ready_at(0, 0.0), bucket.ready_at(1, 0.0)) == (1.5, 30.0, 31.0)
    bucket.take(-40, 0.0)  # it was less after all
    assert bucket.ready_at(0, 0.0) == -10.0


@given(st.integers(1, 50), pauses)
def test_no_span_of_time_sees_more_than_the_budget(num_per_minute: int, pauses: list[float]) -> None:
    bucket, now, taken = Bucket(num_per_minute), 1000.0, []
    for pause_s in pauses:
        now = max(now + pause_s, bucket.ready_at(1, now + pause_s))
        bucket.take(1, now)
        taken.append(now)
    for i, first in enumerate(taken):
        for num, last in enumerate(taken[i:], start=1):
            assert num <= num_per_minute * (1 + (last - first) / 60) + 1e-6


@given(st.integers(1, 50), pauses)
def test_what_is_said_to_be_ready_is_ready_and_not_before(num_per_minute: int, pauses: list[float]) -> None:
    bucket, now = Bucket(num_per_minute), 1000.0
    for pause_s in pauses:
        now += pause_s
        ready_s = bucket.ready_at(1, now)
        if ready_s > now:
            assert bucket.ready_at(1, ready_s) == ready_s
            assert bucket.ready_at(1, math.nextafter(ready_s, 0)) > math.nextafter(ready_s, 0)
        bucket.take(1, now)


def test_a_window_forgets_a_slot_once_all_of_it_is_too_old() -> None:
    window = Window(3600.0)  # slots of a minute
    window.add(5.0, 30.0)
    window.add(7.0, 59.0)
    window.add(11.0, 60.0)
    assert window.total(3659.0) == 23.0
    assert window.total(3660.0) == 11.0
    assert window.total(3720.0) == 0.0


@pytest.mark.parametrize(("limit", "moment_s"), [(24.0, 100.0), (23.0, 3660.0), (11.5, 3660.0), (11.0, 3720.0), (1e-9, 3720.0)])
def test_a_window_tells_when_it_is_below_a_limit(limit: float, moment_s: float) -> None:
    window = Window(3600.0)
    window.add(12.0, 30.0)
    window.add(11.0, 60.0)
    assert window.below_at(limit, 100.0) == moment_s
    assert window.total(moment_s) < limit


@given(st.lists(st.tuples(st.floats(0, 2000), st.integers(0, 100)), max_size=40))
def test_a_window_counts_the_last_hour_and_at_most_a_slot_more(events: list[tuple[float, int]]) -> None:
    window, now, seen = Window(3600.0), 0.0, []
    for pause_s, amount in events:
        now += pause_s
        window.add(amount, now)
        seen.append((now, amount))
    least = sum(a for t, a in seen if t > now - 3600)
    most = sum(a for t, a in seen if t > now - 3660)
    assert least <= window.total(now) <= most
