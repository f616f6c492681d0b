"""Gamma arrivals and a trace's own arrivals; Poisson arrivals are in test_workload_trace."""

from __future__ import annotations

import itertools
import random
import statistics

import pytest

from agentix.core.errors import ConfigError
from agentix.workload import Call, Program, TraceError, gamma_arrivals, trace_arrivals
from agentix.workload.draw import draw_programs


def gaps(cv: float, rate_per_s: float = 2, num_programs: int = 20_000) -> list[float]:
    arrivals = gamma_arrivals(random.Random(7), num_programs=num_programs, rate_per_s=rate_per_s, cv=cv)
    assert arrivals[0] == 0
    assert len(arrivals) == num_programs
    return [later - earlier for earlier, later in itertools.pairwise(arrivals)]


@pytest.mark.parametrize("cv", [0.2, 1, 3])
def test_gamma_gaps_have_the_mean_and_the_variation_asked_for(cv: float) -> None:
    drawn = gaps(cv)
    mean = statistics.fmean(drawn)
    assert mean == pytest.approx(0.5, rel=0.08)
    assert statistics.pstdev(drawn) / mean == pytest.approx(cv, rel=0.08)


def test_a_variation_of_one_is_exponential() -> None:
    drawn = sorted(gaps(1))
    for share in (0.1, 0.5, 0.9):
        quantile = drawn[int(share * len(drawn))]
        assert 1 - 2.718281828 ** (-2 * quantile) == pytest.approx(share, abs=0.02)


def test_gamma_gaps_scale_with_the_rate_and_vanish_at_an_infinite_one() -> None:
    assert gaps(3, rate_per_s=1, num_programs=50) == pytest.approx([10 * gap for gap in gaps(3, 10, 50)])
    assert set(gaps(3, float("inf"), 50)) == {0}


@pytest.mark.parametrize(("rate_per_s", "cv"), [(1, 0), (1, -1), (1, float("inf")), (1, float("nan")), (0, 1), (-1, 1)])
def test_gamma_refuses_what_has_no_meaning(rate_per_s: float, cv: float) -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        gamma_arrivals(random.Random(1), num_programs=1, rate_per_s=rate_per_s, cv=cv)


def arriving(program_id: str, arrival_s: float | None) -> Program:
    call = Call(call_id="c0", parents=(), prompt_tokens=1, output_tokens=1)
    return Program(program_id=program_id, workload="w", calls=(call,), arrival_s=arrival_s)


def test_trace_arrivals_begin_at_zero_keep_their_order_and_are_sped_up() -> None:
    programs = [arriving("a", 12.0), arriving("b", 10.0), arriving("c", 20.0)]
    assert trace_arrivals(programs) == [2, 0, 10]
    assert trace_arrivals(programs, speed_up=4) == [0.5, 0, 2.5]
    assert trace_arrivals([]) == []


def test_trace_arrivals_need_a_time_and_a_speed() -> None:
    with pytest.raises(TraceError, match="program 'b': arrival_s is missing"):
        trace_arrivals([arriving("a", 0), arriving("b", None)])
    with pytest.raises(ConfigError, match="speed_up must be above 0, not 0"):
        trace_arrivals([arriving("a", 0)], speed_up=0)


def test_the_same_programs_are_drawn_in_the_same_order_with_bursts_or_without() -> None:
    programs = [arriving(name, None) for name in "abcdef"]
    poisson, bursts = (draw_programs(programs, num_programs=9, rate_per_s=2, seed=1, gap_cv=cv) for cv in (None, 3.0))
    assert [program.program_id for program, _ in poisson] == [program.program_id for program, _ in bursts]
    expected = gamma_arrivals(random.Random("1/arrivals"), num_programs=9, rate_per_s=2, cv=3.0)
    assert [arrival_s for _, arrival_s in bursts] == expected
