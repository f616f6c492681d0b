"""Figures by label and histograms: nothing is lost, and the number of time series is bounded."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.accounting import Account, read_account
from agentix.gateway.histogram import Histogram
from agentix.gateway.metrics import EngineFigures, GatewayMetrics
from agentix.gateway.outcome import Outcome
from idle_gateway import idle_exposition

VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 8.0]))
NAMES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "other"]), max_size=30)


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


@given(NAMES)
def test_classes_seen_last_have_their_own_label_and_nothing_is_lost(classes: list[str]) -> None:
    metrics = GatewayMetrics(max_classes=2)
    for program_class in classes:
        metrics.program_over(program_class, 1.0)
    shown = dict(metrics.classes.figures())
    assert len(shown) == len(list(metrics.classes.figures()))
    recent = list(dict.fromkeys(c for c in reversed(classes) if c != "other"))[:2]
    assert shown.keys() == {*recent, "other"}
    assert sum(f.num_ok for f in shown.values()) == len(classes)
    assert sum(f.jct_s.sum for f in shown.values()) == len(classes)
    assert [metrics.classes.shown(c) for c in recent] == recent
    assert all(metrics.classes.shown(c) == "other" for c in {*classes, "new"} - set(recent))


def test_an_old_class_s_figures_are_in_other_and_it_begins_anew() -> None:
    metrics = GatewayMetrics(max_classes=2)
    for program_class in ("a", "b", "c", "a"):  # c pushes a out, a pushes b out
        metrics.program_over(program_class, 4.0, token_latency_s=2.0, slowdown=3.0, wait_s=1.0)
    metrics.program_over("c", None)
    figures = {
        name: (f.num_ok, f.num_failed, f.jct_s.sum, f.token_latency_s.sum, f.slowdown.sum, f.wait_s.sum)
        for name, f in metrics.classes.figures()
    }
    assert figures == {
        "a": (1, 0, 4.0, 2.0, 3.0, 1.0),
        "c": (1, 1, 4.0, 2.0, 3.0, 1.0),
        "other": (2, 0, 8.0, 4.0, 6.0, 2.0),
    }


@given(classes=NAMES, engines=NAMES, tenants=NAMES)
def test_whatever_names_there_are_the_number_of_series_is_bounded(
    classes: list[str], engines: list[str], tenants: list[str]
) -> None:
    metrics = GatewayMetrics(max_classes=2, max_engines=2, max_tenants=2)
    exposition = idle_exposition(metrics, "a", "b")
    for name in classes:
        metrics.program_over(name, 1.0, token_latency_s=1.0, slowdown=1.0, wait_s=1.0)
    for engine_id in engines:
        metrics.call_over(engine_id, Outcome.FINISHED, Account(prompt_tokens=3, cached_tokens=1), latency_s=1.0)
    for tenant in tenants:
        metrics.charge(tenant, Account(), 1.0)
        metrics.rejected(429, tenant=tenant)
    samples = [s for family in exposition.collect() for s in family.samples]
    for label, at_most in (("class", 3), ("tenant", 3), ("engine", 3 + 2)):  # what the pool has now is always shown
        assert len({s.labels[label] for s in samples if label in s.labels}) <= at_most, label
    assert sum(s.value for s in samples if s.name.endswith("_programs_total")) == len(classes)
    assert sum(s.value for s in samples if s.name.endswith("_gateway_calls_total")) == len(engines)
    assert sum(s.value for s in samples if s.name.endswith("_prompt_tokens_total")) == 3 * len(engines)
    assert sum(s.value for s in samples if s.name.endswith("_rejections_total")) == len(tenants)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}, {"cached": 4, "computed": 6}),  # Chat
        ({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 10}}, {"cached": 10, "computed": 0}),  # Responses
        ({"input_tokens": 6, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1}, {"cached": 3, "computed": 7}),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, {"unknown": 10}),
        ({"prompt_tokens": 10, "prompt_tokens_details": {}}, {"unknown": 10}),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, {"cached": 10, "computed": 0}),
        ({"prompt_tokens_details": {"cached_tokens": 4}}, {}),
    ],
)
def test_prompt_tokens_are_counted_by_where_their_kv_came_from(usage: dict[str, object], expected: dict[str, int]) -> None:
    figures = EngineFigures()
    figures.count_tokens(read_account({"usage": usage}))
    assert dict(figures.prompt_tokens) == expected


def test_a_rejection_counts_by_its_code_if_it_says_more_than_its_status() -> None:
    metrics = GatewayMetrics()
    for status, code in ((503, None), (503, "queue_full"), (404, "model_not_found"), (418, None), (418, "a client's words")):
        metrics.rejected(status, code)
    rejections = dict(metrics.tenants.figures())[""].rejections
    assert rejections == {"no_engine": 1, "queue_full": 1, "unknown_model": 1, "other": 2}
