"""`agentix offline`: run all programs of a trace, to the shortest makespan."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentix.offline import OfflineConfig
from agentix.offline.config import PROGRAMS_PER_ENGINE
from agentix.offline.display import print_report, progress_display
from agentix.offline.replay import replay_offline


def offline(
    trace: Annotated[Path, typer.Argument(help="Trace of programs with their text: .jsonl.gz or .jsonl.")],
    *,
    gateway: Annotated[str, typer.Option(help="Base URL of the gateway, or of any OpenAI-compatible server.")],
    out: Annotated[Path, typer.Option(help="Results file (JSON lines), written as programs end.")],
    concurrency: Annotated[
        int | None, typer.Option(help=f"Programs at once; default: {PROGRAMS_PER_ENGINE} for each healthy engine.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the results file: skip what ended well.")] = False,
    attempts: Annotated[int, typer.Option(help="How often a program is tried.")] = 3,
    model: Annotated[str | None, typer.Option(help="Model name; default: the one that the gateway serves.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token; better in the environment.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run every program of a trace as a batch, longest first; results are saved as they come.

    Exits with 1 if a program failed, 2 if the batch could not start, 130 if it was interrupted (go on with --resume).
    """
    config = OfflineConfig(gateway=gateway, out=out, concurrency=concurrency, resume=resume, attempts=attempts, api_key=api_key)
    with progress_display(Console(stderr=True)) as on_result:
        report = replay_offline(trace, config, model=model, on_result=on_result)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    else:
        print_report(report, out, Console())
    raise typer.Exit(report.exit_code)
