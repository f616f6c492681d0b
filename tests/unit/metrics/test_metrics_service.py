"""Where time goes: every metric on numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix import metrics
from agentix.metrics import BatchSpan, CallRecord, ProgramRecord, Status


def call(call_id: str, ready_s: float, end_s: float, service_s: float | None, **fields: Any) -> CallRecord:
    values: dict[str, Any] = {
        "program_id": "p",
        "call_id": call_id,
        "thread_id": "t0",
        "parents": (),
        "status": Status.OK,
        "max_tokens": 5,
        "trace_prompt_tokens": 7,
        "ready_s": ready_s,
        "sent_s": ready_s,
        "end_s": end_s,
        "service_s": service_s,
        "swap_s": 0.0,
        "num_preemptions": 0,
        "longest_wait_s": 0.0,
        "prompt_tokens": 10,
        "cached_tokens": 0,
    }
    return CallRecord(**values | fields)


def program(*calls: CallRecord, arrival_s: float = 0.0) -> ProgramRecord:
    return ProgramRecord(program_id="p", trace_program_id="x", workload="w", arrival_s=arrival_s, calls=calls)


# Arrives at 1. a: 9 s in the engine, 4 of them service, 2 swap, so 3 waiting. 5 s of tool. b: 6 s, all service but 1.
A = call("a", 1.0, 10.0, 4.0, swap_s=2.0, num_preemptions=2, longest_wait_s=2.5, cached_tokens=4)
B = call("b", 15.0, 21.0, 5.0, parents=("a",), longest_wait_s=1.0, prompt_tokens=30, cached_tokens=26)
CHAIN = program(A, B, arrival_s=1.0)

# r: 2 s. x: 1 s of gap, 3 s of service, 2 s of waiting. y: 6 s of service from 2 on. z joins them after y, 1 s later.
R = call("r", 0.0, 2.0, 2.0)
X = call("x", 3.0, 8.0, 3.0, parents=("r",))
Y = call("y", 2.0, 8.0, 6.0, parents=("r",))
Z = call("z", 9.0, 12.0, 1.0, parents=("x", "y"))
DIAMOND = program(R, X, Y, Z)

FAILED = call("f", 0.0, 3.0, 1.0, status=Status.FAILED)
UNKNOWN = call("u", 0.0, 3.0, None, swap_s=None, num_preemptions=None, longest_wait_s=None, cached_tokens=None)


def test_of_a_call() -> None:
    assert metrics.execute_s(A) == 4.0
    assert metrics.swap_s(A) == 2.0
    assert metrics.wait_s(A) == 3.0  # 9 - 4 - 2
    assert metrics.wait_to_execution(A) == 0.75  # 3 / 4
    assert metrics.starvation_age_s(A) == 2.5


CALL_METRICS = [metrics.execute_s, metrics.swap_s, metrics.wait_s, metrics.wait_to_execution, metrics.starvation_age_s]
PROGRAM_METRICS = [
    metrics.alone_s,
    metrics.slowdown,
    metrics.program_wait_s,
    metrics.program_wait_to_execution,
    metrics.wait_share,
    metrics.execute_share,
    metrics.swap_share,
]


@pytest.mark.parametrize("metric", CALL_METRICS)
@pytest.mark.parametrize("bad", [FAILED, UNKNOWN])
def test_a_call_that_failed_or_of_which_nothing_is_known_has_no_value(metric: Any, bad: CallRecord) -> None:
    assert metric(bad) is None


@pytest.mark.parametrize("metric", PROGRAM_METRICS)
@pytest.mark.parametrize("bad", [FAILED, UNKNOWN])
def test_nor_has_a_program_with_such_a_call(metric: Any, bad: CallRecord) -> None:
    assert metric(program(A, bad)) is None


def test_a_call_that_was_never_executed_has_no_ratio() -> None:
    assert metrics.wait_to_execution(call("c", 0.0, 1.0, 0.0)) is None


def test_rounding_is_not_a_negative_wait() -> None:
    assert metrics.wait_s(call("c", 0.1, 0.4, 0.30000000000000004)) == 0.0


def test_of_a_sequential_program() -> None:
    assert metrics.program_wait_s(CHAIN) == 4.0  # 3 + 1
    assert metrics.program_wait_to_execution(CHAIN) == pytest.approx(4 / 9)  # (3 + 1) / (4 + 5)
    assert metrics.wait_share(CHAIN) == pytest.approx(4 / 15)  # of 9 + 6 s in the engine
    assert metrics.execute_share(CHAIN) == pytest.approx(9 / 15)
    assert metrics.swap_share(CHAIN) == pytest.approx(2 / 15)
    assert metrics.alone_s(CHAIN) == 14.0  # 4 + 5 of gap + 5
    assert metrics.slowdown(CHAIN) == pytest.approx(20 / 14)  # it took 21 - 1


def test_of_a_program_that_forks_and_joins_the_longest_path_counts() -> None:
    assert metrics.alone_s(DIAMOND) == 10.0  # r 2, y 6, gap 1, z 1; by x it is 2 + 1 + 3 + 1 + 1 = 8
    assert metrics.slowdown(DIAMOND) == pytest.approx(1.2)
    assert metrics.program_wait_s(DIAMOND) == 4.0  # x 2, z 2


def test_a_program_that_never_waited_has_a_slowdown_of_one() -> None:
    assert metrics.slowdown(program(R, Y)) == 1.0


def test_of_a_run() -> None:
    run = [CHAIN, DIAMOND, program(FAILED)]
    assert metrics.total_wait_s(run) == 8.0  # 4 + 4; the failed call is not part of it
    assert metrics.prefix_hit_rate(run) == pytest.approx(30 / 80)  # (4 + 26) / (10 + 30 + 4 · 10)
    assert metrics.num_preemptions(run) == 2
    assert metrics.mean_batch_size(run, busy_s=14.0) == 1.5  # (4 + 5 + 2 + 3 + 6 + 1) / 14


def test_a_run_has_no_total_if_a_part_is_unknown_or_there_is_none() -> None:
    for run in ([CHAIN, program(UNKNOWN)], [program(FAILED)], []):
        assert metrics.total_wait_s(run) is None
        assert metrics.prefix_hit_rate(run) is None
        assert metrics.num_preemptions(run) is None
        assert metrics.mean_batch_size(run, busy_s=1.0) is None
    assert metrics.mean_batch_size([CHAIN], busy_s=0.0) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([None], None),
        ([0.0, 0.0], None),
        ([3.0], 1.0),
        ([2.0, 2.0, None, 2.0], 1.0),
        ([1.0, 3.0], 0.8),  # 4² / (2 · 10)
        ([5.0, 0.0, 0.0, 0.0], 0.25),  # one of four has everything
    ],
)
def test_jain_index(values: list[float | None], expected: float | None) -> None:
    assert metrics.jain_index(values) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.floats(0.001, 1e6), min_size=1), st.floats(0.01, 100))
def test_jain_index_lies_between_one_nth_and_one_and_knows_no_unit(values: list[float], factor: float) -> None:
    index = metrics.jain_index(values)
    assert index is not None
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert metrics.jain_index(factor * value for value in values) == pytest.approx(index)


def test_batch_size_over_time() -> None:
    spans = [BatchSpan(1.0, 2.0, 3), BatchSpan(2.0, 4.0, 3), BatchSpan(4.0, 5.0, 1), BatchSpan(7.0, 8.0, 1)]
    assert metrics.batch_size_series(spans) == [(1.0, 3), (4.0, 1), (5.0, 0), (7.0, 1), (8.0, 0)]
    assert metrics.batch_size_series([]) == []


def test_summary_of_service() -> None:
    summary = metrics.summarise_service([CHAIN, DIAMOND, program(FAILED)], busy_s=14.0)
    assert (summary.total_wait_s, summary.num_preemptions, summary.mean_batch_size) == (8.0, 2, 1.5)
    assert summary.prefix_hit_rate == 0.375
    slowdowns = (20 / 14, 1.2)
    assert summary.slowdown_fairness == pytest.approx(sum(slowdowns) ** 2 / (2 * sum(x * x for x in slowdowns)))
    assert summary.distributions["slowdown"].mean == pytest.approx(sum(slowdowns) / 2)
    assert summary.distributions["slowdown"].num_no_value == 1
    assert summary.distributions["starvation_age_s"].max == 2.5
