"""Charts to SVG and PNG. The only module that needs matplotlib, which draws without a screen, a browser or the network.

Why matplotlib: its SVG is some ten kilobytes a chart, stands in a page without any script, and it is what the project draws its
other figures with. Libraries that draw in the browser would put one to five megabytes of script into every report.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from agentix.report.chart import Bars, Chart, Line, Panel

# (on light ground, on dark ground) by style; each has a contrast of 3 : 1 or more to its ground.
COLOURS = (
    ("#0b6b62", "#4fc3b5"),
    ("#b3541e", "#f0a066"),
    ("#3d5a99", "#8fb0f0"),
    ("#8c2d6b", "#e58cc4"),
    ("#5b7c1f", "#a9cf6b"),
    ("#57606a", "#9aa4ad"),
)
_INK, _RULE, _GROUND = "#1b1f24", "#c9cecd", "#fffffe"  # no other colour is equal to these: pages replace them
_DASHES = ("-", "--", ":")  # beyond as many arms as there are colours
_NUM_COLUMNS = 3
_SIZE_IN = (3.9, 3.0)  # of a panel, in inches
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "agentix",  # the same numbers give the same bytes
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _RULE,
    "figure.facecolor": _GROUND,
    "axes.facecolor": _GROUND,
    "legend.frameon": False,
}


def svg(chart: Chart) -> str:
    """The chart as a whole SVG file, on light ground."""
    file = io.StringIO()
    with mpl.rc_context(_STYLE):
        _figure(chart).savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def write_png(chart: Chart, path: Path) -> None:
    """The chart as a picture, on light ground."""
    with mpl.rc_context(_STYLE):
        _figure(chart).savefig(path, format="png", dpi=160, metadata={"Software": None})


def inline_svg(chart: Chart) -> str:
    """The chart as an element of a page: colours are the page's variables, ids begin with the chart's name.

    Variables: `--ink`, `--rule`, `--surface`, and `--series-0`, `--series-1`, …
    """
    text = svg(chart)
    text = text[text.index("<svg") :]
    for style, (light, _) in enumerate(COLOURS):
        text = text.replace(light, f"var(--series-{style})")
    for colour, variable in ((_INK, "ink"), (_RULE, "rule"), (_GROUND, "surface")):
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{chart.slug}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{chart.slug}-", text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ', text)
    width = f"{float(size[1]):.0f}pt" if size else "100%"
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="\1" style="width: {width}" aria-hidden="true">',
        text,
        count=1,
        flags=re.DOTALL,
    )


def _figure(chart: Chart) -> Any:
    num_columns = min(_NUM_COLUMNS, len(chart.panels))
    num_rows = -(-len(chart.panels) // num_columns)
    width, height = _SIZE_IN
    tall = max(0.16 * panel.num_rows + 0.3 * len(panel.groups) * panel.stacked for panel in chart.panels)
    wide = any(panel.stacked or panel.num_rows for panel in chart.panels)
    if wide:
        num_columns, num_rows = 1, len(chart.panels)
        width, height = 2.4 * width, 1.2 + tall
    figure = Figure(figsize=(width * num_columns, height * num_rows), layout="constrained")
    axes = figure.subplots(num_rows, num_columns, squeeze=False)
    for index, axis in enumerate(axes.flat):
        if index < len(chart.panels):
            _draw_panel(axis, chart.panels[index])
        else:
            axis.set_visible(False)
    return figure


def _draw_panel(axis: Any, panel: Panel) -> None:
    axis.set_axisbelow(True)
    axis.grid(visible=True, linewidth=0.4)
    axis.spines[["top", "right"]].set_visible(False)
    if panel.spans or panel.num_rows:
        _draw_spans(axis, panel)
    elif panel.stacked:
        _draw_stack(axis, panel)
    elif panel.bars:
        _draw_bars(axis, panel)
    else:
        for line in panel.lines:
            _draw_line(axis, line)
        if panel.log_x and all(x > 0 for line in panel.lines for x in line.xs):
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter("")  # their labels would overlap
        axis.set_ylim(bottom=0)
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.x_max is not None:
        axis.set_xlim(0, panel.x_max)
    if panel.stacked:
        axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif panel.lines or panel.bars:
        axis.legend(fontsize=8)


def _draw_line(axis: Any, line: Line) -> None:
    colour = COLOURS[line.style % len(COLOURS)][0]
    style = {"color": colour, "linestyle": _DASHES[line.style // len(COLOURS) % len(_DASHES)], "linewidth": 1.5}
    if line.steps:
        axis.step(line.xs, line.ys, where="post", label=line.label, **style)
        return
    errors = _errors(line.ys, line.bounds) if any(line.bounds) else None
    axis.errorbar(line.xs, line.ys, yerr=errors, label=line.label, marker="o", markersize=3.5, capsize=3, **style)


def _draw_bars(axis: Any, panel: Panel) -> None:
    width = 0.8 / len(panel.bars)
    for index, bars in enumerate(panel.bars):
        places = [group + (index - (len(panel.bars) - 1) / 2) * width for group in range(len(panel.groups))]
        heights = [height or 0.0 for height in bars.heights]
        errors = _errors(heights, bars.bounds) if any(bars.bounds) else None
        axis.bar(places, heights, width, yerr=errors, label=bars.label, capsize=3, ecolor=_INK, **_fill(bars))
    axis.set_xticks(range(len(panel.groups)), panel.groups)
    axis.margins(y=0.25)  # room for the legend


def _draw_stack(axis: Any, panel: Panel) -> None:
    left = [0.0] * len(panel.groups)
    for bars in panel.bars:
        widths = [height or 0.0 for height in bars.heights]
        axis.barh(range(len(panel.groups)), widths, 0.7, left=left, label=bars.label, **_fill(bars))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_yticks(range(len(panel.groups)), panel.groups)
    axis.invert_yaxis()


def _draw_spans(axis: Any, panel: Panel) -> None:
    for strong in (False, True):
        spans = [span for span in panel.spans if span.strong == strong and span.end_s > span.start_s]
        lefts, widths = [span.start_s for span in spans], [span.end_s - span.start_s for span in spans]
        colour = COLOURS[0][0]
        axis.barh([span.row for span in spans], widths, 0.8, left=lefts, color=colour, alpha=1.0 if strong else 0.3)
    axis.set_ylim(panel.num_rows - 0.5, -0.5)
    axis.set_yticks([])


def _fill(bars: Bars) -> dict[str, Any]:
    hatch = ("", "///", "...")[bars.style // len(COLOURS) % 3]
    return {"color": COLOURS[bars.style % len(COLOURS)][0], "hatch": hatch, "edgecolor": _GROUND, "linewidth": 0.5}


def _errors(values: Any, bounds: Any) -> list[list[float]]:
    """What matplotlib wants: distances below and above; none where there is no interval."""
    below = [0.0 if bound is None else value - bound[0] for value, bound in zip(values, bounds, strict=True)]
    above = [0.0 if bound is None else bound[1] - value for value, bound in zip(values, bounds, strict=True)]
    return [below, above]
