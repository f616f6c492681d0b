"""From result files to a report on disk: the door that the command line uses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.core.errors import ConfigError
from agentix.report.charts import make_charts
from agentix.report.model import ReportError
from agentix.report.page import make_page
from agentix.report.read import read_report


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where a report goes: `page` is the HTML, `svg` and `png` folders for the charts alone. Raises ConfigError."""

    page: Path
    svg: Path | None = None
    png: Path | None = None

    def __post_init__(self) -> None:
        if self.page.is_dir() or not os.access(self.page.parent, os.W_OK):
            raise ConfigError(f"cannot write to {self.page}: not a file in a writable folder")
        for folder in (self.svg, self.png):
            if folder is not None:
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise ConfigError(f"cannot create the folder {folder}: {error.strerror}") from None


def write_report(results: Sequence[str], out: ReportFiles) -> list[Path]:
    """Write the report of `results` (`FILE` or `LABEL=FILE`) and return what was written, the page first.

    The same results give the same bytes with the same versions. Raises ReportError for what cannot be read, ConfigError if
    the library that draws is missing.
    """
    try:
        from agentix.report.draw import COLOURS, inline_svg, svg, write_png  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; run: pip install 'agentix[plot]'") from None
    report = read_report(results)
    if not report.runs:
        raise ReportError("the results hold no runs")
    charts = make_charts(report)
    partial = out.page.with_name(out.page.name + ".partial")
    partial.write_text(make_page(report, charts, draw=inline_svg, colours=COLOURS), encoding="utf-8")
    partial.replace(out.page)
    written = [out.page]
    for chart in charts:
        if out.svg is not None:
            written.append(out.svg / f"{chart.slug}.svg")
            written[-1].write_text(svg(chart), encoding="utf-8")
        if out.png is not None:
            written.append(out.png / f"{chart.slug}.png")
            write_png(chart, written[-1])
    return written
