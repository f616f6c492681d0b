"""Figures of classes and histograms: nothing is lost, and labels are bounded."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from agentix.core.program import ProgramRow
from agentix.gateway.metrics import GatewayMetrics, Histogram
from agentix.gateway.outcome import Outcome

VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 8.0]))


@given(VALUES, VALUES)
def test_added_histograms_count_as_one(first: list[float], second: list[float]) -> None:
    histograms = []
    for values in (first, second, first + second):
        histogram = Histogram((1.0, 2.0))
        for value in values:
            histogram.observe(value)
        histograms.append(histogram)
    a, b, both = histograms
    a.add(b)
    expected = [(le, bisect_left(sorted(first + second), le + 0.25)) for le in (1.0, 2.0, float("inf"))]
    assert list(a.cumulative()) == list(both.cumulative()) == expected
    assert a.sum == both.sum == sum(first + second)


def over(program_class: str, *, jct_s: float = 1.0, num_aborted: int = 0) -> ProgramRow:
    return ProgramRow(
        program_id="p",
        program_class=program_class,
        started_s=5.0,
        last_completion_s=5.0 + jct_s,
        num_finished=1,
        num_aborted=num_aborted,
    )


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d", "other"]), max_size=30))
def test_classes_seen_last_have_their_own_label_and_nothing_is_lost(classes: list[str]) -> None:
    metrics = GatewayMetrics(max_classes=2)
    for program_class in classes:
        metrics.program_over(over(program_class))
    shown = dict(metrics.classes())
    assert len(shown) == len(list(metrics.classes()))
    recent = list(dict.fromkeys(c for c in reversed(classes) if c != "other"))[:2]
    assert shown.keys() == {*recent, "other"}
    assert sum(f.num_ok for f in shown.values()) == len(classes)
    assert sum(f.jct_s.sum for f in shown.values()) == len(classes)
    assert [metrics.label(c) for c in recent] == recent
    assert all(metrics.label(c) == "other" for c in {*classes, "new"} - set(recent))


def test_an_old_class_s_figures_are_in_other_and_it_begins_anew() -> None:
    metrics = GatewayMetrics(max_classes=2)
    for program_class in ("a", "b", "c", "a"):  # c pushes a out, a pushes b out
        metrics.program_over(over(program_class, jct_s=4.0))
    assert {name: (f.num_ok, f.jct_s.sum) for name, f in metrics.classes()} == {
        "a": (1, 4.0),
        "c": (1, 4.0),
        "other": (2, 8.0),
    }


def test_token_latency_needs_every_call_s_tokens() -> None:
    metrics = GatewayMetrics()

    def run(*tokens: int | None) -> tuple[float, int]:
        for output_tokens in tokens:
            metrics.call_over("p", "e", Outcome.FINISHED, latency_s=1.0, output_tokens=output_tokens)
        metrics.program_over(over("", jct_s=6.0))
        histogram = dict(metrics.classes())[""].token_latency_s
        return histogram.sum, list(histogram.cumulative())[-1][1]

    assert run(1, 2) == (2.0, 1)
    assert run(1, None, 2) == (2.0, 1)
    assert run(0) == (2.0, 1)
    assert run(4, 0) == (3.5, 2)


def test_a_program_with_a_call_that_did_not_finish_has_failed() -> None:
    metrics = GatewayMetrics()
    metrics.call_over("p", "e", Outcome.LOST, latency_s=1.0, ttft_s=0.5)
    metrics.program_over(over("", num_aborted=1))
    figures = dict(metrics.classes())[""]
    assert (figures.num_ok, figures.num_failed, figures.jct_s.sum) == (0, 1, 0.0)
    assert (metrics.engines["e"].latency_s.sum, metrics.engines["e"].ttft_s.sum) == (0.0, 0.0)
