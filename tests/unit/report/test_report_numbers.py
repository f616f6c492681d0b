"""What a report says: shares of time, ratios and charts, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.report.breakdown import shares_of_time
from agentix.report.charts import distribution_charts, latency_chart, make_charts, shares_chart
from agentix.report.model import CallSpan, Report, Run, Source
from agentix.report.ratios import ratios_to_first
from agentix.report.timeline import timeline_chart


def run(arm: str, mean_s: float, *, rate: float | None = 1.0, repeat: str = "1", **fields: Any) -> Run:
    groups = {"all": {"program_token_latency_s.mean": mean_s}, "longer half": {"program_token_latency_s.mean": 2 * mean_s}}
    return Run(arm=arm, point=f"{rate}", rate_per_s=rate, repeat=repeat, groups=fields.pop("groups", groups), **fields)


def report(*runs: Run) -> Report:
    return Report(sources=(Source(name="s", kind="test", facts=(), runs=runs),))


def call(call_id: str, *parents: str, ready: float, sent: float, first: float | None, end: float) -> dict[str, Any]:
    moments = {"ready_s": ready, "sent_s": sent, "first_token_s": first, "end_s": end}
    return {"call_id": call_id, "parents": list(parents), **moments}


def test_a_programs_time_is_that_of_the_calls_that_it_waited_for_last() -> None:
    calls = [
        call("a", ready=0.0, sent=0.5, first=2.0, end=4.0),
        call("b", "a", ready=5.0, sent=5.0, first=None, end=8.0),
        call("c", "a", ready=5.0, sent=5.0, first=5.5, end=6.0),  # beside b, and over before it
    ]
    shares = shares_of_time([(0.0, calls)])
    assert shares == {"tool gaps": 1 / 8, "client late": 0.5 / 8, "until the first token": 1.5 / 8, "answering": 5 / 8}
    assert shares_of_time([]) == {}
    again = [call("x", ready=10.0, sent=10.0, first=18.0, end=18.0)]
    assert shares_of_time([(0.0, calls), (10.0, again)])["until the first token"] == 9.5 / 16


def test_ratios_are_those_of_runs_with_the_same_programs() -> None:
    found = ratios_to_first(
        report(
            run("base", 4.0),
            run("base", 8.0, repeat="2"),
            run("new", 2.0),
            run("new", 4.0, repeat="2"),
            run("new", 9.0, repeat="3"),
        )
    )
    assert [(r.arm, r.group, r.interval.num_values) for r in found] == [("new", "all", 2), ("new", "longer half", 2)]
    assert [r.interval.centre for r in found] == pytest.approx([0.5, 0.5])
    assert found[0].interval.is_below_one


def test_runs_without_a_partner_have_no_ratio() -> None:
    assert ratios_to_first(report(run("base", 4.0), run("new", 2.0, repeat="2"), run("new", 2.0, rate=2.0))) == []


def test_latency_by_load_has_a_point_for_each_rate_with_the_interval_of_its_repeats() -> None:
    chart = latency_chart(report(run("a", 1.0), run("a", 3.0, repeat="2"), run("a", 5.0, rate=2.0), run("b", 2.0)))
    mean = chart.panels[0]
    assert (mean.title, mean.groups) == ("mean", ())
    a, b = mean.lines
    assert (a.xs, a.ys) == ([1.0, 2.0], [2.0, 5.0])
    assert a.bounds[0] is not None
    assert list(a.bounds[0]) == pytest.approx([2 - 12.706, 2 + 12.706])  # s = √2, n = 2
    assert a.bounds[1] is None
    assert (b.xs, b.ys) == ([1.0], [2.0])
    assert chart.table.rows[0] == ["a", "1.0", "2", "2 [-10.7, 14.7]", "–", "–"]


def test_with_a_single_rate_latency_is_bars() -> None:
    mean = latency_chart(report(run("a", 1.0), run("b", 3.0))).panels[0]
    assert (mean.groups, mean.lines) == (["1.0"], ())
    assert [(bars.label, bars.heights) for bars in mean.bars] == [("a", [1.0]), ("b", [3.0])]


def test_distributions_count_programs_of_all_repeats() -> None:
    runs = [run("a", 1.0, samples={"jct_s": [4.0, 1.0]}), run("a", 1.0, repeat="2", samples={"jct_s": [2.0, 3.0]})]
    (chart,) = distribution_charts(report(*runs))
    (line,) = chart.panels[0].lines
    assert (line.xs, line.ys, line.steps) == ([1.0, 2.0, 3.0, 4.0], [0.25, 0.5, 0.75, 1.0], True)
    assert chart.table.rows == [["a", "1.0", "2.5", "3.7", "3.85", "3.97"]]


def test_long_distributions_keep_their_ends() -> None:
    (chart,) = distribution_charts(report(run("a", 1.0, samples={"jct_s": [float(n) for n in range(1, 1002)]})))
    (line,) = chart.panels[0].lines
    assert len(line.xs) <= 201
    assert (line.xs[-1], line.ys[-1]) == (1001.0, 1.0)
    assert all(y == pytest.approx(x / 1001) for x, y in zip(line.xs, line.ys, strict=True))


def test_of_percentiles_alone_the_points_are_drawn() -> None:
    runs = [run("a", 1.0, repeat=str(n), quantiles={"jct_s": [(0.5, 1.0 * n), (0.95, 3.0 * n)]}) for n in (1, 3)]
    (chart,) = distribution_charts(report(*runs))
    (line,) = chart.panels[0].lines
    assert (line.xs, line.ys, line.steps) == ([2.0, 6.0], [0.5, 0.95], False)
    assert chart.table.rows == [["a", "1.0", "2", "–", "6", "–"]]


def test_shares_are_averaged_over_the_repeats_that_tell_them() -> None:
    told = [run("a", 1.0, shares={"x": 0.25, "y": 0.75}), run("a", 1.0, repeat="2", shares={"x": 0.75, "y": 0.25})]
    chart = shares_chart(report(*told, run("b", 1.0)))
    assert chart is not None
    assert chart.panels[0].groups == ["a, 1.0"]
    assert [(bars.label, bars.heights) for bars in chart.panels[0].bars] == [("x", [0.5]), ("y", [0.5])]
    assert shares_chart(report(run("b", 1.0))) is None


def test_the_timeline_is_that_of_the_highest_load() -> None:
    def spans(name: str) -> list[CallSpan]:
        return [
            CallSpan(program_id=name, sent_s=0.0, first_token_s=1.0, end_s=3.0),
            CallSpan(program_id=name, sent_s=4.0, first_token_s=None, end_s=5.0),
        ]

    chart = timeline_chart(report(run("a", 1.0, calls=spans("low")), run("a", 1.0, rate=2.0, calls=spans("high"))))
    assert chart is not None
    (panel,) = chart.panels
    assert panel.title == "a, 2.0, 1"
    assert [(s.row, s.start_s, s.end_s, s.strong) for s in panel.spans] == [
        (0, 0.0, 1.0, False),
        (0, 1.0, 3.0, True),
        (0, 4.0, 4.0, False),
        (0, 4.0, 5.0, True),
    ]
    assert chart.table.rows == [["a", "1", "high", "5"]]


def test_charts_without_data_are_left_out() -> None:
    assert [chart.slug for chart in make_charts(report(run("a", 1.0)))] == ["latency"]
