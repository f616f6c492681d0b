"""The simulation's clock: a total order of events, and no way back."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.sim.kernel import Kernel, Phase, TimeError


def test_at_one_moment_batches_end_before_calls_arrive_before_control_before_schedule() -> None:
    """Every order of scheduling gives the same order of playing, so the phases decide and not luck."""
    for order in itertools.permutations(Phase):
        kernel: Kernel[Phase] = Kernel()
        for phase in order:
            kernel.schedule(phase, at_s=1.0, phase=phase)
        played: list[Phase] = []
        kernel.run(played.append)
        assert played == [Phase.COMPLETE, Phase.ARRIVE, Phase.CONTROL, Phase.SCHEDULE]


def test_events_of_one_phase_at_one_moment_are_played_as_they_were_scheduled() -> None:
    """Also when the events themselves cannot be compared."""
    kernel: Kernel[object] = Kernel()
    events = [object() for _ in range(20)]
    for event in events:
        kernel.schedule(event, at_s=0.0, phase=Phase.ARRIVE)
    played: list[object] = []
    kernel.run(played.append)
    assert played == events


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(Phase), st.floats(0, 10))))
def test_time_never_goes_back_and_nothing_is_lost(plan: list[tuple[float, Phase, float]]) -> None:
    """Half of the events schedule another one when they are played."""
    kernel: Kernel[tuple[int, float | None]] = Kernel()
    for index, (at_s, phase, delay_s) in enumerate(plan):
        kernel.schedule((index, delay_s if index % 2 else None), at_s=at_s, phase=phase)
    moments: list[float] = []

    def play(event: tuple[int, float | None]) -> None:
        index, delay_s = event
        moments.append(kernel.now)
        if delay_s is not None:
            kernel.schedule((index, None), at_s=kernel.now + delay_s, phase=Phase.COMPLETE)

    kernel.run(play)
    assert moments == sorted(moments)
    assert len(moments) == len(plan) + len(plan) // 2
    assert len(kernel) == 0


@pytest.mark.parametrize("at_s", [4.999, -1.0, math.inf, math.nan])
def test_a_moment_that_is_past_or_none_is_refused(at_s: float) -> None:
    kernel: Kernel[str] = Kernel()
    kernel.schedule("first", at_s=5.0, phase=Phase.ARRIVE)
    kernel.run(lambda _: None)
    with pytest.raises(TimeError, match="it is 5"):
        kernel.schedule("late", at_s=at_s, phase=Phase.ARRIVE)
    assert len(kernel) == 0


def test_a_run_may_stop_and_go_on() -> None:
    kernel: Kernel[float] = Kernel()
    for at_s in (1.0, 2.0, 3.0):
        kernel.schedule(at_s, at_s=at_s, phase=Phase.ARRIVE)
    played: list[float] = []
    kernel.run(played.append, until_s=2.0)
    assert (played, kernel.now, len(kernel)) == ([1.0, 2.0], 2.0, 1)
    kernel.run(played.append)
    assert played == [1.0, 2.0, 3.0]
