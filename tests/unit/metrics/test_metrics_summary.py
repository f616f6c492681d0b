"""Percentiles and summaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.metrics import CallRecord, ProgramRecord, Status, distribution, percentile, summarise

numbers = st.lists(st.floats(-1e9, 1e9), min_size=1)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([], 50, None),
        ([7.0], 0, 7.0),
        ([7.0], 99, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 0, 1.0),
        ([4.0, 1.0, 3.0, 2.0], 100, 4.0),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.5),  # h = 1.5
        ([10.0, 20.0, 30.0, 40.0, 50.0], 95, 48.0),  # h = 3.8
        ([5.0, 5.0, 5.0], 95, 5.0),
    ],
)
def test_percentile(values: list[float], q: float, expected: float | None) -> None:
    assert percentile(values, q) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("q", [-1, 100.1, float("nan")])
def test_percentile_refuses(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], q)


@given(numbers, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_are_ordered_and_within_the_values(values: list[float], one: float, other: float) -> None:
    low, high = percentile(values, min(one, other)), percentile(values, max(one, other))
    assert low is not None
    assert high is not None
    assert min(values) <= low <= max(values)
    assert low <= high or low == pytest.approx(high)


@given(numbers, st.randoms(use_true_random=False), st.floats(0, 100))
def test_percentile_does_not_depend_on_order(values: list[float], rng: object, q: float) -> None:
    shuffled = values.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert percentile(values, q) == percentile(shuffled, q)


def test_distribution_counts_what_has_no_value() -> None:
    found = distribution([None, 1.0, 3.0, None])
    assert (found.num_values, found.num_no_value, found.mean, found.p50, found.max) == (2, 2, 2.0, 2.0, 3.0)
    empty = distribution([None])
    assert (empty.num_values, empty.num_no_value, empty.mean, empty.p99, empty.max) == (0, 1, None, None, None)


def call(status: Status, *, output_tokens: int | None = 2) -> CallRecord:
    return CallRecord(
        program_id="p",
        call_id="c",
        thread_id="t0",
        parents=(),
        status=status,
        max_tokens=2,
        trace_prompt_tokens=1,
        ready_s=0.0,
        sent_s=0.0,
        first_token_s=1.0,
        last_token_s=2.0,
        end_s=2.0,
        output_tokens=output_tokens,
    )


def program(*calls: CallRecord) -> ProgramRecord:
    return ProgramRecord(program_id="p", trace_program_id="x", workload="w", arrival_s=0.0, calls=calls)


def test_summary_counts_everything_once() -> None:
    good = program(call(Status.OK), call(Status.OK, output_tokens=1))
    bad = program(call(Status.OK, output_tokens=None), call(Status.FAILED), call(Status.NOT_RUN))
    summary = summarise([good, bad])
    assert summary.num_programs == {Status.OK: 1, Status.FAILED: 1, Status.CANCELLED: 0, Status.NOT_RUN: 0}
    assert summary.num_calls == {Status.OK: 3, Status.FAILED: 1, Status.CANCELLED: 0, Status.NOT_RUN: 1}
    assert summary.num_short_answers == 1
    assert summary.makespan_s == 2.0
    assert summary.program_throughput_per_s == 0.5
    assert summary.output_token_throughput_per_s is None
    assert summary.distributions["jct_s"].num_values == 1
    assert summary.distributions["ttft_s"].num_no_value == 2


def test_summary_of_nothing() -> None:
    summary = summarise([])
    assert summary.makespan_s is None
    assert all(values.num_values == 0 for values in summary.distributions.values())
