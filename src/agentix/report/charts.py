"""Which charts a report has: latency by load, distributions, shares of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentix.metrics import percentile
from agentix.metrics.interval import Interval, mean_interval
from agentix.report.chart import Bars, Bounds, Chart, Line, Panel, Table, number, with_bounds
from agentix.report.model import ALL, METRICS, STATISTICS, Report, Run
from agentix.report.timeline import timeline_chart

_MAX_STEPS = 200  # of an empirical distribution that is drawn: more than a screen shows
_SHOWN = ("P50", "P90", "P95", "P99")


def make_charts(report: Report) -> list[Chart]:
    """Every chart that there is data for."""
    charts = (latency_chart(report), *distribution_charts(report), shares_chart(report), timeline_chart(report))
    return [chart for chart in charts if chart is not None]


def latency_chart(report: Report) -> Chart:
    """Program token latency against the load: a curve for each arm, or bars where there is one point or no rate."""
    title = "Program token latency by load"
    text = (
        "Response time of a program divided by its output tokens. Points are means over repeats (seeds), with their 95 % "
        "confidence intervals (Student's t) where there are at least two repeats."
    )
    metric = next(iter(METRICS))
    names = [f"{metric}.{statistic}" for statistic in STATISTICS]
    panels = [_curves(report, name) if _has_curves(report) else _bars(report, name) for name in names]
    rows = [
        [arm, point, str(len(report.at(arm, point))), *(_cell(_interval(report, arm, point, name)) for name in names)]
        for point in report.points
        for arm in report.arms
        if report.at(arm, point)
    ]
    table = Table(header=["arm", "load", "n", *(f"{shown} (s/token)" for shown in STATISTICS.values())], rows=rows)
    return Chart(slug="latency", title=title, text=text, panels=panels, table=table)


def distribution_charts(report: Report) -> Iterator[Chart]:
    """For each metric the share of programs that took at most so long, a panel for each point."""
    for metric, axis in METRICS.items():
        panels, rows = [], []
        for point in report.points:
            lines = []
            for style, arm in enumerate(report.arms):
                line = _distribution(report.at(arm, point), metric, arm, style)
                if line is not None:
                    lines.append(line)
                    rows.append([arm, point, *_percentiles(report.at(arm, point), metric)])
            if lines:
                panels.append(Panel(title=point, x=axis, y="share of programs", lines=lines, log_x=True))
        if panels:
            text = (
                "How large a share of the programs took at most so long; further left is better. All repeats together. Where a "
                "result has percentiles alone, those are the points, averaged over repeats, with straight lines between them."
            )
            table = Table(header=["arm", "load", *_SHOWN], rows=rows)
            title = f"Distribution of {axis}"
            yield Chart(slug=f"distribution-{metric.removesuffix('_s')}", title=title, text=text, panels=panels, table=table)


def shares_chart(report: Report) -> Chart | None:
    """Where the time went, a bar for each arm at each point; None if no result tells."""
    groups = [(arm, point) for point in report.points for arm in report.arms if any(r.shares for r in report.at(arm, point))]
    if not groups:
        return None
    parts = list(dict.fromkeys(part for run in report.runs for part, share in run.shares.items() if share))
    values = {part: [_share(report.at(*group), part) for group in groups] for part in parts}
    names = [f"{arm}, {point}" for arm, point in groups]
    bars = [Bars(label=part, style=style, heights=values[part]) for style, part in enumerate(parts)]
    rows = [[name, *(number(values[part][i]) for part in parts)] for i, name in enumerate(names)]
    text = (
        "Share of the programs' time, averaged over repeats. From a benchmark: their response times, along the calls that "
        "each program waited for last; waiting and prefill are one part, as a client cannot tell them apart. From a "
        "simulation: their time in engines, without tool gaps."
    )
    panel = Panel(title="", x="share of time", y="", groups=names, bars=bars, stacked=True, x_max=1.0)
    return Chart(
        slug="shares",
        title="Where the time went",
        text=text,
        panels=[panel],
        table=Table(header=["arm, load", *parts], rows=rows),
    )


def _has_curves(report: Report) -> bool:
    return len({run.rate_per_s for run in report.runs if run.rate_per_s is not None}) > 1


def _curves(report: Report, name: str) -> Panel:
    lines = []
    for style, arm in enumerate(report.arms):
        found: list[tuple[float, Interval]] = []
        for point in report.points:
            rate_per_s = next((run.rate_per_s for run in report.at(arm, point)), None)
            interval = _interval(report, arm, point, name)
            if rate_per_s is not None and interval is not None:
                found.append((rate_per_s, interval))
        if found:
            lines.append(
                Line(
                    label=arm,
                    style=style,
                    xs=[rate_per_s for rate_per_s, _ in found],
                    ys=[interval.centre for _, interval in found],
                    bounds=[_bounds(interval) for _, interval in found],
                )
            )
    return Panel(title=STATISTICS[name.rpartition(".")[2]], x="programs/s", y="s/token", lines=lines)


def _bars(report: Report, name: str) -> Panel:
    bars = []
    for style, arm in enumerate(report.arms):
        found = [_interval(report, arm, point, name) for point in report.points]
        heights = [None if interval is None else interval.centre for interval in found]
        bars.append(Bars(label=arm, style=style, heights=heights, bounds=[_bounds(interval) for interval in found]))
    return Panel(title=STATISTICS[name.rpartition(".")[2]], x="", y="s/token", groups=report.points, bars=bars)


def _interval(report: Report, arm: str, point: str, name: str) -> Interval | None:
    return mean_interval(run.groups[ALL].get(name) for run in report.at(arm, point))


def _bounds(interval: Interval | None) -> Bounds | None:
    if interval is None or interval.low is None or interval.high is None:
        return None
    return interval.low, interval.high


def _cell(interval: Interval | None) -> str:
    return with_bounds(None if interval is None else interval.centre, _bounds(interval))


def _distribution(runs: Sequence[Run], metric: str, arm: str, style: int) -> Line | None:
    values = sorted(value for run in runs for value in run.samples.get(metric, ()))
    if values:
        step = max(1, -(-len(values) // _MAX_STEPS))
        kept = [*range(step - 1, len(values) - 1, step), len(values) - 1]
        ys = [(index + 1) / len(values) for index in kept]
        return Line(label=arm, style=style, xs=[values[index] for index in kept], ys=ys, steps=True)
    known = _known(runs, metric)
    return Line(label=arm, style=style, xs=[x for _, x in known], ys=[share for share, _ in known]) if known else None


def _known(runs: Sequence[Run], metric: str) -> list[tuple[float, float]]:
    """(share, value) where results have percentiles alone: the mean over the runs."""
    by_share: dict[float, list[float]] = {}
    for run in runs:
        for share, value in run.quantiles.get(metric, ()):
            by_share.setdefault(share, []).append(value)
    return [(share, sum(values) / len(values)) for share, values in sorted(by_share.items())]


def _percentiles(runs: Sequence[Run], metric: str) -> list[str]:
    values = [value for run in runs for value in run.samples.get(metric, ())]
    known = dict(_known(runs, metric))
    shares = [int(name[1:]) / 100 for name in _SHOWN]
    return [number(percentile(values, 100 * share) if values else known.get(share)) for share in shares]


def _share(runs: Sequence[Run], part: str) -> float | None:
    told = [run.shares.get(part, 0.0) for run in runs if run.shares]
    return sum(told) / len(told) if told else None
