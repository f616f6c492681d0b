"""`agentix report`: results as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        list[str],
        typer.Argument(metavar="[LABEL=]RESULT.json…", help="Results of bench, ab or simulate; the first arm is the base."),
    ],
    out: Annotated[Path, typer.Option(help="The page (HTML): one file that opens without a network.")] = Path("report.html"),
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="The charts as SVG files, too.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="DIR", help="The charts as PNG files, too.")] = None,
) -> None:
    """Show results as charts and tables: latency by load, distributions, where the time went, ratios with intervals.

    \b
    agentix report stock=a.json plas=b.json --out report.html     two runs of agentix bench
    agentix report results/summary.json                           a comparison of agentix ab
    agentix report simulated.json --png pictures                  a comparison of agentix simulate
    """  # noqa: D301  (\b keeps click from reflowing the examples)
    from agentix.report.write import ReportFiles, write_report  # noqa: PLC0415 - heavy, and optional for other commands

    for path in write_report(results, ReportFiles(page=out, svg=svg, png=png)):
        typer.echo(path)
