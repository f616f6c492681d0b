"""What totals of programs that are over foretell."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.history import MAX_CLASSES, MAX_TOTALS, MIN_TOTALS, Histories, ServiceHistory


def seconds(invested_s: float, worth: float) -> object:
    """What is expected, if so many seconds complete programs of so much worth: 1 / √total each."""
    return pytest.approx((invested_s / worth) ** (2 / 3))


def learnt(totals_s: list[float], under_way_s: tuple[float, ...] = ()) -> ServiceHistory:
    history = ServiceHistory()
    for total_s in totals_s:
        history.add(total_s)
    history.learn(under_way_s)
    return history


def test_where_programs_are_alike_age_says_nothing() -> None:
    """The index of single ages would go up and down with the few totals that there are: 4 and 6 s, and 9 to 11 s."""
    history = learnt([4.0, 6.0, *(9.0, 10.0, 11.0) * 4])
    fresh_s = history.expected_s(0.0)
    assert 8.0 < fresh_s < 11.0
    assert {history.expected_s(age_s) for age_s in (3.0, 4.0, 6.0, 10.5, 11.0, 50.0)} == {fresh_s}
    assert learnt([10.0] * 8).expected_s(4.0) == 10.0


def test_one_that_outlives_all_by_far_ends_the_likeness() -> None:
    """Service of 500 s by a single one weighs more than that of all the others, of which none took longer than 11 s."""
    history = learnt([*(9.0, 10.0, 11.0) * 4], (500.0,))
    assert history.expected_s(500.0) == 500.0
    assert history.expected_s(0.0) < 15.0


def test_a_program_is_never_expected_to_need_less_than_a_fresh_one() -> None:
    """Beyond 100 s the two of 101 s are nearly over, and most are over after 1 to 4 s."""
    history = learnt([1.0, 2.0, 3.0, 4.0] * 5 + [50.0] * 2 + [101.0] * 2)
    fresh_s = history.expected_s(0.0)
    assert history.expected_s(4.0) > 2 * fresh_s
    assert min(history.expected_s(age_s) for age_s in range(0, 120, 5)) == fresh_s


def test_of_two_modes_the_short_one_is_tried_first() -> None:
    history = learnt([1.0] * 5 + [100.0] * 5)
    # Invest 1 s: half are over, worth 1 each. To the end: 1 + 99 / 2 s, worth 0.5 / 1 + 0.5 / 10.
    assert history.expected_s(0.0) == seconds(1, 0.5)
    # Now it is known to be a long one: 99 s, worth 1 / √100.
    assert history.expected_s(1.0) == history.expected_s(50.0) == seconds(99, 0.1)


def test_programs_that_get_ever_longer_are_put_back_with_every_second() -> None:
    history = learnt([2.0**i for i in range(12)])
    expected_s = [history.expected_s(2.0**i) for i in range(11)]
    assert expected_s == sorted(expected_s)
    assert expected_s[0] == seconds(11, math.sqrt(1 / 2))  # one of eleven is over after a second more
    assert expected_s[-1] == seconds(1024, math.sqrt(1 / 2048))


def test_programs_under_way_are_evidence_of_long_ones() -> None:
    """Four of five are over after 1 s, if one looks at those alone that are over; half are still going."""
    over = [1.0] * 8 + [20.0] * 2
    assert learnt(over).expected_s(0.0) == seconds(1, 0.8)
    # Ten more have had 5 s: 8 of 20 were over after 1 s, and of the 2 that had over 5 s both were after 20 s.
    history = learnt(over, (5.0,) * 10)
    assert history.expected_s(0.0) == seconds(1, 0.4)
    assert history.expected_s(1.0) == seconds(19, math.sqrt(1 / 20))


def test_too_few_totals_say_nothing() -> None:
    history = ServiceHistory()
    for _ in range(MIN_TOTALS - 1):
        history.add(5.0)
        assert not history.is_stale
    assert history.expected_s(3.0) == 3.0  # as least attained service has it
    history.add(5.0)
    assert history.is_stale


def test_a_new_class_goes_by_all_programs() -> None:
    histories = Histories()
    for _ in range(MIN_TOTALS):
        histories.everything.add(7.0)
    histories.everything.learn(())
    assert histories.of("new").expected_s(0.0) == 7.0
    assert histories.of("new").expected_s(6.0) == 7.0
    assert histories.of("new") is histories.of("new")


def test_the_first_of_a_new_class_are_not_taken_for_short_because_others_are() -> None:
    """All programs so far were over after 7 s or after 50 s; this one has had 30 s."""
    histories = Histories()
    for total_s in (7.0, 50.0) * MIN_TOTALS:
        histories.everything.add(total_s)
    histories.everything.learn(())
    assert histories.everything.expected_s(49.0) == seconds(43, math.sqrt(1 / 50))
    assert histories.of("new").expected_s(30.0) == seconds(43, math.sqrt(1 / 50))
    assert histories.of("new").expected_s(49.0) == 49.0


def test_a_context_is_expected_to_get_as_long_as_those_that_got_longer() -> None:
    history = ServiceHistory()
    for tokens in (100, 200, 300, 400, 500, 600, 700, 1000):
        history.add(1.0, tokens)
    history.learn(())
    assert history.expected_context_tokens(0) == 475
    assert history.expected_context_tokens(650) == 850
    assert history.expected_context_tokens(1000) == 1000
    assert ServiceHistory().expected_context_tokens(1000) == 1500  # nothing is known: half as long again


def test_what_was_is_forgotten() -> None:
    history = learnt([1000.0] * MAX_TOTALS + [2.0] * MAX_TOTALS)
    assert len(history.totals_s) == MAX_TOTALS
    assert history.expected_s(0.0) == 2.0


def test_classes_are_bounded() -> None:
    histories = Histories()
    for i in range(MAX_CLASSES + 5):
        histories.of(str(i))
    assert len(histories.by_class) == MAX_CLASSES
    assert "0" not in histories.by_class


positive = st.floats(0.001, 1e6)


@given(st.lists(positive, min_size=MIN_TOTALS, max_size=200), st.lists(positive, max_size=100), st.floats(0, 2e6))
def test_what_is_expected_is_a_positive_number_within_reach(
    totals_s: list[float], under_way_s: list[float], attained_s: float
) -> None:
    expected_s = learnt(totals_s, tuple(under_way_s)).expected_s(attained_s)
    assert 0 <= expected_s < math.inf
    if attained_s < max(totals_s) and not under_way_s:
        # Investing until every program is over is one of the choices, and it costs no more than the longest takes.
        assert expected_s <= max(totals_s) + 1e-9


def drifting(num_new: int) -> ServiceHistory:
    """A full memory of programs of 1 s, of which the last `num_new` needed 100 s."""
    return learnt([1.0] * MAX_TOTALS + [100.0] * num_new)


def test_a_class_that_changes_is_followed_within_the_memory() -> None:
    """Of 512 totals k are new: a second invested in each completes 512 - k, of worth 1. The last 11 old ones count no more."""
    for num_new in (0, 1, 256, 448, 500):
        assert drifting(num_new).expected_s(0.0) == seconds(512, 512 - num_new)
    for num_new in (501, 512):
        assert drifting(num_new).expected_s(0.0) == 100.0
    assert drifting(1).expected_s(1.0) == seconds(99, 0.1)  # who goes on is a new one, from the first of them on


@given(st.integers(0, MAX_TOTALS), st.floats(0.01, 1e3), st.floats(0.01, 1e3))
def test_while_old_and_new_are_mixed_what_is_expected_is_between_them(num_new: int, old_s: float, new_s: float) -> None:
    expected_s = learnt([old_s] * (MAX_TOTALS - num_new) + [new_s] * num_new).expected_s(0.0)
    assert min(old_s, new_s) - 1e-9 <= expected_s <= max(old_s, new_s) + 1e-9  # it is rounded to so many digits


def test_a_class_in_use_is_not_forgotten_for_its_age() -> None:
    histories = Histories()
    old = histories.of("old")
    for i in range(MAX_CLASSES - 1):
        histories.of(str(i))
    assert histories.of("old") is old
    histories.of("one more")
    assert "old" in histories.by_class
    assert "0" not in histories.by_class


def test_the_longer_memory_takes_the_place_of_the_shorter() -> None:
    history = learnt([1.0] * 8)
    before = history.num_added
    assert not history.recall([5.0] * 8, [1] * 8)
    assert (list(history.totals_s), history.num_added) == ([1.0] * 8, before)
    assert history.recall([5.0] * 9, [1] * 9)
    assert (list(history.totals_s), list(history.contexts)) == ([5.0] * 9, [1] * 9)
    assert history.is_stale
    assert history.num_added != before


@given(st.lists(positive, min_size=MIN_TOTALS, max_size=200), st.lists(positive, max_size=100), st.floats(0, 2e6))
def test_no_age_is_expected_to_need_less_than_a_fresh_program(
    totals_s: list[float], under_way_s: list[float], attained_s: float
) -> None:
    history = learnt(totals_s, tuple(under_way_s))
    assert history.expected_s(attained_s) >= history.expected_s(0.0)
