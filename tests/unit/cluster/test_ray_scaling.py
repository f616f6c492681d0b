"""How many engines there should be: by hand, and for any course of the load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.cluster.ray_scaling import Load, ScalingSettings, Trend, decide
from agentix.core import ConfigError

SETTINGS = ScalingSettings(min_engines=1, max_engines=8)  # 4 calls or 30 s for each; 15 s up, 300 s down
SHORT = Load(num_engines=2, num_waiting=9)
IDLE = Load(num_engines=3, num_running=8)


def after(load: Load, seconds: float, settings: ScalingSettings = SETTINGS) -> int:
    """How many engines there are to be once the load has been like this for so long."""
    num, trend = decide(load, Trend(), settings, 1000.0)
    assert num == load.num_engines
    return decide(load, trend, settings, 1000.0 + seconds)[0]


def test_calls_that_wait_for_long_enough_bring_engines_for_all_of_them() -> None:
    assert after(SHORT, 14.9) == 2
    assert after(SHORT, 15.0) == 3  # 9 calls, 4 for each
    assert after(Load(num_engines=2, num_waiting=8), 1000.0) == 2


def test_a_burst_doubles_the_engines_at_most() -> None:
    assert after(Load(num_engines=2, num_waiting=100), 15.0) == 4
    assert after(Load(num_engines=7, num_waiting=100), 15.0) == 8  # no more than there may be
    assert after(Load(num_engines=8, num_waiting=100), 1000.0) == 8


def test_a_few_calls_that_wait_for_very_long_bring_one_more() -> None:
    assert after(Load(num_engines=2, num_waiting=2, waiting_s=61.0), 15.0) == 3
    assert after(Load(num_engines=2, num_waiting=2, waiting_s=60.0), 1000.0) == 2


def test_nothing_is_started_while_one_is_being_started() -> None:
    assert after(Load(num_engines=2, num_starting=1, num_waiting=50), 1000.0) == 2


def test_what_ceases_for_a_moment_begins_anew() -> None:
    _, trend = decide(SHORT, Trend(), SETTINGS, 0.0)
    assert trend == Trend(too_few_since_s=0.0)
    _, trend = decide(Load(num_engines=2), trend, SETTINGS, 10.0)
    assert trend == Trend(too_many_since_s=10.0)
    _, trend = decide(SHORT, trend, SETTINGS, 16.0)
    assert decide(SHORT, trend, SETTINGS, 30.9)[0] == 2
    assert decide(SHORT, trend, SETTINGS, 31.0) == (3, Trend())


def test_engines_that_the_others_can_do_without_go_one_by_one() -> None:
    assert after(IDLE, 299.0) == 3
    assert after(IDLE, 300.0) == 2  # 8 calls, 4 for each of the two that are left
    assert after(Load(num_engines=3, num_running=9), 1000.0) == 3
    assert after(Load(num_engines=3, num_running=1, num_waiting=1), 1000.0) == 3
    assert after(Load(num_engines=1), 1000.0) == 1
    assert after(Load(num_engines=3), 1000.0, ScalingSettings(min_engines=3, max_engines=3)) == 3


@pytest.mark.parametrize(("num", "wanted"), [(0, 2), (1, 2), (9, 4)])
def test_a_number_outside_the_bounds_is_mended_at_once(num: int, wanted: int) -> None:
    settings = ScalingSettings(min_engines=2, max_engines=4)
    assert decide(Load(num_engines=num), Trend(), settings, 0.0) == (wanted, Trend())


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_engines": 0},
        {"min_engines": 3, "max_engines": 2},
        {"waiting_calls": 0},
        {"waiting_s": float("nan")},
        {"grow_after_s": -1},
        {"shrink_after_s": 0},
        {"idle_calls": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"at least 1|must be above 0|must not be negative"):
        ScalingSettings(**wrong)  # type: ignore[arg-type]


loads = st.tuples(st.floats(0.1, 100.0), st.integers(0, 200), st.floats(0, 5000), st.integers(0, 200), st.integers(0, 1))


@given(st.lists(loads, max_size=60), st.integers(1, 4), st.integers(0, 6))
def test_any_load_moves_it_slowly_and_within_its_bounds(
    course: list[tuple[float, int, float, int, int]], least: int, more: int
) -> None:
    settings = ScalingSettings(min_engines=least, max_engines=least + more)
    num, trend, now, changed_s = least, Trend(), 0.0, 0.0
    for step_s, num_waiting, waiting_s, num_running, num_starting in course:
        now += step_s
        load = Load(
            num_engines=num, num_starting=num_starting, num_waiting=num_waiting, waiting_s=waiting_s, num_running=num_running
        )
        wanted, trend = decide(load, trend, settings, now)
        assert settings.min_engines <= wanted <= settings.max_engines
        if wanted != num:
            assert now - changed_s >= (settings.grow_after_s if wanted > num else settings.shrink_after_s)
            assert num - 1 <= wanted <= 2 * num
            num, changed_s = wanted, now


@given(num_calls=st.integers(0, 300), room=st.integers(0, 40), num=st.integers(1, 12))
def test_the_same_calls_all_the_time_never_make_it_go_up_and_down(num_calls: int, room: int, num: int) -> None:
    settings = ScalingSettings(min_engines=1, max_engines=12)
    trend, course = Trend(), [num]
    for minute in range(200):
        num_running = min(num_calls, room * num)
        load = Load(num_engines=num, num_waiting=num_calls - num_running, num_running=num_running)
        num, trend = decide(load, trend, settings, 60.0 * minute)
        course.append(num)
    assert course in (sorted(course), sorted(course, reverse=True))
    assert course[-1] == course[-20]
