"""Every metric on numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from agentix import metrics
from agentix.metrics import CallRecord, ProgramRecord, Status


def call(call_id: str = "c", **fields: Any) -> CallRecord:
    values: dict[str, Any] = {
        "program_id": "p",
        "call_id": call_id,
        "thread_id": "t0",
        "parents": (),
        "status": Status.OK,
        "max_tokens": 5,
        "trace_prompt_tokens": 7,
        "ready_s": 0.5,
        "sent_s": 1.0,
        "first_token_s": 3.0,
        "last_token_s": 5.0,
        "end_s": 6.0,
        "output_tokens": 5,
    }
    return CallRecord(**values | fields)


def program(*calls: CallRecord, arrival_s: float = 0.0) -> ProgramRecord:
    return ProgramRecord(program_id="p", trace_program_id="x", workload="w", arrival_s=arrival_s, calls=calls)


NOT_RUN = call(status=Status.NOT_RUN, sent_s=None, first_token_s=None, last_token_s=None, end_s=None, output_tokens=None)


def test_of_a_call() -> None:
    assert metrics.ttft_s(call()) == 2.0  # 3 - 1
    assert metrics.tpot_s(call()) == 0.5  # (5 - 3) / (5 - 1)
    assert metrics.call_latency_s(call()) == 5.0  # 6 - 1
    assert metrics.start_lag_s(call()) == 0.5  # 1 - 0.5


@pytest.mark.parametrize("output_tokens", [None, 0, 1])
def test_tpot_needs_two_tokens(output_tokens: int | None) -> None:
    assert metrics.tpot_s(call(output_tokens=output_tokens)) is None


def test_an_answer_without_text_has_no_first_token() -> None:
    silent = call(first_token_s=None)
    assert metrics.ttft_s(silent) is None
    assert metrics.tpot_s(silent) is None
    assert metrics.call_latency_s(silent) == 5.0


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
def test_a_call_that_did_not_end_well_has_no_latency(status: Status) -> None:
    for metric in (metrics.ttft_s, metrics.tpot_s, metrics.call_latency_s, metrics.start_lag_s):
        assert metric(call(status=status)) is None


def test_of_a_sequential_program() -> None:
    chain = program(call("a", end_s=6.0), call("b", end_s=12.0, output_tokens=3), arrival_s=2.0)
    assert metrics.jct_s(chain) == 10.0  # 12 - 2
    assert metrics.program_token_latency_s(chain) == 1.25  # 10 / (5 + 3)


def test_of_a_program_with_threads_the_last_end_and_all_tokens_count() -> None:
    forked = program(call("a", end_s=2.0), call("b", end_s=20.0), call("c", end_s=9.0, output_tokens=10))
    assert metrics.jct_s(forked) == 20.0
    assert metrics.program_token_latency_s(forked) == 1.0  # 20 / (5 + 5 + 10)


@pytest.mark.parametrize("bad", [NOT_RUN, call(status=Status.FAILED), call(status=Status.CANCELLED)])
def test_a_program_with_a_call_that_did_not_end_well_has_no_latency(bad: CallRecord) -> None:
    assert metrics.jct_s(program(call(), bad)) is None
    assert metrics.program_token_latency_s(program(call(), bad)) is None


@pytest.mark.parametrize("output_tokens", [None, 0])
def test_token_latency_needs_tokens(output_tokens: int | None) -> None:
    assert metrics.program_token_latency_s(program(call(output_tokens=output_tokens))) is None


def test_of_a_run() -> None:
    run = [
        program(call("a", end_s=6.0), arrival_s=1.0),
        program(call("a", end_s=11.0), call("b", status=Status.FAILED, end_s=99.0, output_tokens=None), arrival_s=2.0),
    ]
    assert metrics.makespan_s(run) == 10.0  # 11 - 1
    assert metrics.program_throughput_per_s(run) == 0.1  # one program ended well
    assert metrics.output_token_throughput_per_s(run) == 1.0  # two calls of 5 tokens


def test_of_a_run_in_which_nothing_ended_well() -> None:
    for run in ([], [program(NOT_RUN)]):
        assert metrics.makespan_s(run) is None
        assert metrics.program_throughput_per_s(run) is None
        assert metrics.output_token_throughput_per_s(run) is None


def test_throughput_has_no_value_without_counts_or_time() -> None:
    assert metrics.output_token_throughput_per_s([program(call(output_tokens=None))]) is None
    assert metrics.program_throughput_per_s([program(call(end_s=0.0))]) is None


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ("ok ok", Status.OK),
        ("ok failed not_run", Status.FAILED),
        ("failed cancelled", Status.FAILED),
        ("not_run not_run", Status.NOT_RUN),
        ("ok not_run", Status.CANCELLED),
        ("ok cancelled not_run", Status.CANCELLED),
    ],
)
def test_status_of_a_program(statuses: str, expected: Status) -> None:
    assert program(*(call(status=Status(word)) for word in statuses.split())).status is expected
