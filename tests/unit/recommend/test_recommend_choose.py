"""What is worth proposing, from numbers made by hand."""

from __future__ import annotations

import pytest

from agentix.recommend.choose import Verdict, choose, compare, hardly_waits, judge
from agentix.recommend.config import Arm
from agentix.recommend.play import NAMES, Numbers

NOW, NEW, OTHER = (Arm(policy=name, balancer="b", num_engines=2) for name in ("now", "new", "other"))


def numbers(mean: float, p99: float = 10.0, wait: float | None = 0.5) -> Numbers:
    known: dict[str, float | None] = dict.fromkeys(NAMES, 1.0)
    return {**known, "jct_s.mean": mean, "jct_s.p99": p99, "wait_share.mean": wait}


def test_the_least_mean_is_chosen() -> None:
    trials = {NOW: [numbers(4.0)] * 2, NEW: [numbers(3.0)] * 2, OTHER: [numbers(2.0), numbers(3.0)]}
    assert choose(trials, NOW) == OTHER  # √(2·3) < 3


def test_what_is_in_use_stays_unless_something_is_better() -> None:
    assert choose({NOW: [numbers(4.0)], NEW: [numbers(4.0)], OTHER: [numbers(5.0)]}, NOW) == NOW


def test_a_gain_at_the_expense_of_the_slowest_is_not_chosen() -> None:
    trials = {NOW: [numbers(4.0)], NEW: [numbers(2.0, p99=10.6)], OTHER: [numbers(3.0, p99=10.4)]}
    assert choose(trials, NOW) == OTHER


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ([(2.0, 10.0), (2.1, 10.0), (1.9, 10.0)], Verdict.CHANGE),
        ([(2.0, 10.0), (8.0, 10.0), (3.0, 10.0)], Verdict.NOISE),
        ([(5.0, 10.0), (5.1, 10.0), (5.2, 10.0)], Verdict.NOISE),
        ([(3.9, 10.0), (3.9, 10.0), (3.9, 10.0)], Verdict.SMALL),  # 2.5 %
        ([(2.0, 20.0), (2.1, 21.0), (1.9, 22.0)], Verdict.TAIL),
    ],
)
def test_verdicts(own: list[tuple[float, float]], verdict: Verdict) -> None:
    comparison = compare(NEW, [numbers(mean, p99) for mean, p99 in own], [numbers(4.0)] * 3)
    assert judge(comparison, NOW) is verdict


def test_nothing_better_than_what_is_in_use_is_kept() -> None:
    base = [numbers(4.0), numbers(5.0)]
    comparison = compare(NOW, base, base)
    assert judge(comparison, NOW) is Verdict.KEEP
    assert comparison.ratios["jct_s.mean"].centre == 1.0
    assert comparison.values["jct_s.mean"].centre == 4.5


def test_never_slower_is_mean_and_tail() -> None:
    base = [numbers(4.0)] * 2
    assert compare(NEW, [numbers(2.0, 9.0)] * 2, base).is_never_slower
    assert not compare(NEW, [numbers(2.0, 10.0)] * 2, base).is_never_slower
    assert not compare(NEW, [numbers(4.0, 9.0)] * 2, base).is_never_slower


def test_programs_that_hardly_wait_are_known_by_the_share_of_their_time() -> None:
    assert hardly_waits([numbers(1.0, wait=0.02), numbers(1.0, wait=0.06)])
    assert not hardly_waits([numbers(1.0, wait=0.04), numbers(1.0, wait=0.08)])
    assert not hardly_waits([numbers(1.0, wait=None)])
