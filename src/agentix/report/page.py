"""The report as one HTML page that needs nothing else: no script, no request, colours by the reader's theme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files

from agentix import __version__
from agentix.report.chart import Chart, Table
from agentix.report.model import ALL, MAKESPAN, METRICS, STATISTICS, Report, Source
from agentix.report.ratios import Ratio, ratios_to_first

_CONTENT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SHORT = {"program_token_latency_s": "token latency", "jct_s": "JCT"}


def make_page(
    report: Report, charts: Iterable[Chart], *, draw: Callable[[Chart], str], colours: Sequence[tuple[str, str]]
) -> str:
    """The page. `draw` gives a chart as an SVG element, `colours` the series' colours on light and on dark ground."""
    series = "".join(f"--series-{i}: light-dark({light}, {dark});" for i, (light, dark) in enumerate(colours))
    style = files("agentix.report").joinpath("page.css").read_text(encoding="utf-8") + f":root {{{series}}}\n"
    title = f"Agentix report: {', '.join(report.arms)}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="note">Made by agentix {escape(__version__)}. Metrics are defined in docs/metrics.md.</p>',
            *_warnings(report),
            *_ratios(report),
            *(_chart(chart, draw(chart)) for chart in charts),
            "<h2>What was measured</h2>",
            *(_source(source) for source in report.sources),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _warnings(report: Report) -> Iterable[str]:
    """What the reader must know first: what is wrong with results, and in what they differ although they are compared."""
    texts = [f"{source.name}: {warning}" for source in report.sources for warning in source.warnings]
    for name in ("workload", "programs", "model", "machine"):
        values = dict.fromkeys(value for source in report.sources for fact, value in source.facts if fact == name)
        if len(values) > 1:
            texts.append(f"the results differ in their {name}: {'; '.join(values)}")
    if texts:
        yield "<h2>Before you read on</h2>\n<ul>"
        yield from (f"<li>{escape(text)}</li>" for text in texts)
        yield "</ul>"


def _ratios(report: Report) -> Iterable[str]:
    """Arms against the first, a table for each point; nothing if there is one arm."""
    ratios = ratios_to_first(report)
    if not ratios:
        if len(report.arms) > 1:
            yield "<h2>Against the first arm</h2>"
            yield (
                "<p>No two runs served the same programs (same load, same seed or repeat), so there are no ratios: compare "
                "the curves with care.</p>"
            )
        return
    names = [
        name for name in (*(f"{m}.{s}" for m in METRICS for s in STATISTICS), MAKESPAN) if any(r.name == name for r in ratios)
    ]
    yield f"<h2>Against {escape(report.arms[0])}</h2>"
    yield (
        "<p>Each number divided by that of the first arm in the run with the same programs; below 1 is better. Geometric mean "
        "over n such pairs, with the 95 % confidence interval of Student's t on logarithms. Coloured: 1 is outside the "
        "interval. With n = 1 nobody knows how far chance alone would move it.</p>"
    )
    for point in report.points:
        rows = list(_rows([r for r in ratios if r.point == point], names))
        if rows:
            header = ["arm", "programs", "n", *(_heading(name) for name in names)]
            yield f"<h3>{escape(point)}</h3>" + _table(header, rows, label=f"Ratios at {point}")


def _rows(ratios: Sequence[Ratio], names: Sequence[str]) -> Iterable[list[str]]:
    """Rows of cells that are HTML already."""
    for arm, group in dict.fromkeys((ratio.arm, ratio.group) for ratio in ratios):
        own = {ratio.name: ratio for ratio in ratios if (ratio.arm, ratio.group) == (arm, group)}
        num_pairs = max(ratio.interval.num_values for ratio in own.values())
        shown = "all" if group == ALL else group
        yield [escape(arm), escape(shown), str(num_pairs), *(_ratio(own.get(name)) for name in names)]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    interval = ratio.interval
    text = f"{interval.centre:.2f}"
    if interval.low is not None and interval.high is not None:
        text += f" [{interval.low:.2f}, {interval.high:.2f}]"
    kind = "better" if interval.is_below_one else "worse" if interval.is_above_one else ""
    return f'<span class="{kind}">{text}</span>' if kind else text


def _heading(name: str) -> str:
    metric, _, statistic = name.partition(".")
    return "makespan" if name == MAKESPAN else f"{_SHORT[metric]} {STATISTICS[statistic]}"


def _chart(chart: Chart, svg: str) -> str:
    identity, described = f"{chart.slug}-title", f"{chart.slug}-text"
    return (
        f'<section aria-labelledby="{identity}">\n<h2 id="{identity}">{escape(chart.title)}</h2>\n<figure>\n'
        f'<div class="scroll" role="img" tabindex="0" aria-labelledby="{identity}" aria-describedby="{described}">{svg}</div>\n'
        f'<figcaption id="{described}">{escape(chart.text)}</figcaption>\n'
        f"<details><summary>As a table</summary>{_plain_table(chart.table, chart.title)}</details>\n</figure>\n</section>"
    )


def _plain_table(table: Table, label: str) -> str:
    return _table(table.header, [[escape(cell) for cell in row] for row in table.rows], label=f"{label}, as a table")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, label: str, kind: str = "") -> str:
    """Cells are HTML. Wide tables scroll by themselves, with keys as well."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )


def _source(source: Source) -> str:
    rows = [["made by", escape(source.kind)], *([escape(name), escape(value)] for name, value in source.facts)]
    return f"<h3>{escape(source.name)}</h3>" + _table(["what", "value"], rows, label=f"About {source.name}", kind="words")
