"""Panels to SVG. The only file that needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper.figure import Panel

_COLOURS = {
    "vLLM": "#7f7f7f",
    "vLLM-opt": "#1f77b4",
    "FCFS": "#1f77b4",
    "MLFQ": "#ff7f0e",
    "Agentix": "#2ca02c",
    "PLAS": "#2ca02c",
    "ATLAS": "#17becf",
    "round-robin": "#9467bd",
    "SRPT": "#d62728",
}
_NUM_COLUMNS = 4


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Write the panels, side by side, to an SVG file that is the same for the same numbers."""
    import matplotlib  # noqa: PLC0415 - an extra

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "agentix", "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif"})
    from matplotlib import pyplot  # noqa: PLC0415

    num_columns = min(_NUM_COLUMNS, len(panels))
    num_rows = -(-len(panels) // num_columns)
    figure, axes = pyplot.subplots(num_rows, num_columns, figsize=(3.3 * num_columns, 2.7 * num_rows), squeeze=False)
    for index, axis in enumerate(axes.flat):
        if index < len(panels):
            _draw_panel(axis, panels[index])
        else:
            axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw_panel(axis: Any, panel: Panel) -> None:
    for label, line in (panel.lines or {}).items():
        axis.plot(
            *zip(*line, strict=True),
            marker="o" if len(line) < 30 else None,
            ms=3,
            lw=1.3,
            label=label,
            color=_COLOURS.get(label),
        )
    if panel.bars:
        width = 0.8 / len(panel.bars)
        for index, (label, heights) in enumerate(panel.bars.items()):
            places = [group + (index - (len(panel.bars) - 1) / 2) * width for group in range(len(heights))]
            axis.bar(places, [height or 0.0 for height in heights], width, label=label, color=_COLOURS.get(label))
        axis.set_xticks(range(len(panel.groups)), panel.groups)
        axis.margins(y=0.3)  # room for the legend
    if panel.level is not None:
        axis.axhline(panel.level, color="black", lw=0.7, ls="--")
    if panel.log_x:
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter("")  # their labels would overlap
    if panel.log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axis.grid(visible=True, lw=0.3)
    axis.legend(fontsize=7, frameon=False)
