"""The gateway's running figures of programs are those of `agentix.metrics`, which has all calls of a program before it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.exchange import Call
from agentix.gateway.metering import Metering
from agentix.gateway.metrics import ClassFigures, GatewayMetrics
from agentix.gateway.outcome import Outcome
from agentix.metrics import definitions, service
from agentix.metrics.records import CallRecord, ProgramRecord, Status
from observed_calls import Calls

SECONDS = st.integers(0, 40).map(lambda n: n / 4)  # exact in binary
TOKENS = st.integers(0, 5)


@dataclass(frozen=True)
class Planned:
    """A call: what it waits, what it is served, what it answers."""

    wait_s: float
    service_s: float
    num_tokens: int


CALLS = st.builds(Planned, SECONDS, SECONDS, TOKENS)
STAGES = st.lists(st.tuples(SECONDS, st.lists(CALLS, min_size=1, max_size=4)), min_size=1, max_size=6)


def metered(metrics: GatewayMetrics) -> Calls:
    table = ProcessTable()
    return Calls(Metering(metrics, table), table)


def play(stages: list[tuple[float, list[Planned]]]) -> tuple[ClassFigures, ProgramRecord]:
    """A program whose every stage forks into calls and begins, after a gap, when all calls of the one before are over."""
    metrics = GatewayMetrics()
    calls = metered(metrics)
    records: list[CallRecord] = []
    now = 100.0
    parents: tuple[str, ...] = ()
    for i, (gap_s, planned) in enumerate(stages):
        now += gap_s if i else 0.0
        ids = tuple(f"{i}.{j}" for j in range(len(planned)))
        arrived = [calls.arrive("p", call_id, now) for call_id in ids]
        ends = [now + p.wait_s + p.service_s for p in planned]
        for end_s, call, p in sorted(zip(ends, arrived, planned, strict=True), key=lambda item: item[0]):
            calls.end(call, end_s, service_s=p.service_s, output_tokens=p.num_tokens)
        for call_id, end_s, p in zip(ids, ends, planned, strict=True):
            records.append(
                CallRecord(
                    program_id="p",
                    call_id=call_id,
                    thread_id="",
                    parents=parents,
                    status=Status.OK,
                    max_tokens=1,
                    trace_prompt_tokens=1,
                    ready_s=now,
                    sent_s=now,
                    end_s=end_s,
                    output_tokens=p.num_tokens,
                    service_s=p.service_s,
                    swap_s=0.0,
                )
            )
        now, parents = max(ends), ids
    calls.end_program("p", now + 1.0)
    program = ProgramRecord(program_id="p", trace_program_id="p", workload="", arrival_s=100.0, calls=tuple(records))
    return dict(metrics.classes.figures())[""], program


@given(STAGES)
def test_chains_and_fork_joins_have_the_figures_of_the_definitions(stages: list[tuple[float, list[Planned]]]) -> None:
    figures, program = play(stages)
    expected = (
        (figures.jct_s, definitions.jct_s(program)),
        (figures.token_latency_s, definitions.program_token_latency_s(program)),
        (figures.slowdown, service.slowdown(program)),
        (figures.wait_s, service.program_wait_s(program)),
    )
    for histogram, value in expected:
        _, num_values = list(histogram.cumulative())[-1]
        assert (num_values, histogram.sum) == ((0, 0.0) if value is None else (1, pytest.approx(value)))


@given(st.lists(st.tuples(st.sampled_from("abc"), SECONDS, SECONDS, SECONDS), min_size=1, max_size=12))
def test_threads_that_go_their_own_ways_never_seem_faster_than_alone(history: list[tuple[str, float, float, float]]) -> None:
    """Slowdown is at least 1 whatever depends on what: each thread has one call at a time, after a gap of its own."""
    metrics = GatewayMetrics()
    calls = metered(metrics)
    events: list[tuple[float, int, int, float]] = []
    free_s = dict.fromkeys("abc", 0.0)
    for n, (thread, gap_s, wait_s, service_s) in enumerate(history):
        begin_s = free_s[thread] + gap_s
        free_s[thread] = begin_s + wait_s + service_s
        events += [(begin_s, 0, n, 0.0), (free_s[thread], 1, n, service_s)]
    active: dict[int, Call] = {}
    for now, is_end, n, service_s in sorted(events):
        if is_end:
            calls.end(active.pop(n), now, service_s=service_s)
        else:
            active[n] = calls.arrive("p", str(n), now)
    calls.end_program("p", 1000.0)
    figures = dict(metrics.classes.figures())[""]
    assert figures.slowdown.sum == 0.0 or figures.slowdown.sum >= 1 - 1e-9


def run(*accounts: dict[str, float | None], outcome: Outcome = Outcome.FINISHED) -> ClassFigures:
    """A program of calls one after the other that take 2 s each, with these accounts; the last ends as given."""
    metrics = GatewayMetrics()
    calls = metered(metrics)
    for n, account in enumerate(accounts):
        last = n == len(accounts) - 1
        calls.end(calls.arrive("p", str(n), 2.0 * n), 2.0 * n + 2.0, outcome if last else Outcome.FINISHED, **account)
    calls.end_program("p", 100.0)
    return dict(metrics.classes.figures())[""]


def test_a_figure_needs_every_call_s_part_of_it() -> None:
    known: dict[str, float | None] = {"service_s": 0.5, "output_tokens": 1}
    whole = run(known, known)
    assert (whole.jct_s.sum, whole.token_latency_s.sum, whole.slowdown.sum, whole.wait_s.sum) == (4.0, 2.0, 4.0, 3.0)
    no_tokens = run(known, {"service_s": 0.5})
    assert (no_tokens.jct_s.sum, no_tokens.token_latency_s.sum, no_tokens.slowdown.sum) == (4.0, 0.0, 4.0)
    untold = run({"output_tokens": 1}, known)
    assert (untold.jct_s.sum, untold.token_latency_s.sum, untold.slowdown.sum, untold.wait_s.sum) == (4.0, 2.0, 0.0, 0.0)


def test_a_program_with_a_call_that_did_not_finish_has_failed() -> None:
    figures = run({"service_s": 0.5, "output_tokens": 1}, {}, outcome=Outcome.LOST)
    assert (figures.num_ok, figures.num_failed) == (0, 1)
    assert (figures.jct_s.sum, figures.slowdown.sum, figures.wait_s.sum) == (0.0, 0.0, 0.0)


def test_a_program_counts_once_and_one_without_calls_not_at_all() -> None:
    metrics = GatewayMetrics()
    calls = metered(metrics)
    calls.end(calls.arrive("p", "1", 0.0), 1.0)
    row = calls.table.row("p")
    calls.end_program("p", 2.0)
    calls.observer.program_over(row)
    calls.observer.program_over(ProgramRow(program_id="q", started_s=0.0))
    assert dict(metrics.classes.figures())[""].num_ok == 1
