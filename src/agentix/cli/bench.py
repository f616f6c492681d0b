"""`agentix bench`: replay recorded programs against a server and measure them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentix.bench import BenchConfig, run_bench
from agentix.bench.display import print_table, print_warnings, progress_display


def bench(
    *,
    target: Annotated[str, typer.Option(help="Base URL of an OpenAI-compatible server.")],
    workload: Annotated[Path, typer.Option(help="Trace of programs: .jsonl.gz or .jsonl.")],
    programs: Annotated[int, typer.Option(help="How many programs to run.")],
    rate: Annotated[float, typer.Option(help="Programs per second, Poisson arrivals; inf: all at once.")],
    out: Annotated[Path, typer.Option(help="Result file (JSON).")],
    seed: Annotated[int, typer.Option(help="Decides which programs run, in what order, and when.")] = 0,
    model: Annotated[str | None, typer.Option(help="Model name; default: the one that the target serves.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token; better in the environment.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one call may take.")] = 600.0,
    max_model_len: Annotated[int | None, typer.Option(help="Context in tokens; default: what the target says.")] = None,
    context_margin: Annotated[float, typer.Option(help="Model tokens per token of the trace, at most.")] = 1.3,
    end_programs: Annotated[bool, typer.Option(help="Tell the target when a program is over.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")] = False,
) -> None:
    """Replay recorded agent programs in an open loop and report latency per program and per call.

    Exits with 1 if a call failed, 2 if the run could not start, 130 if it was interrupted.
    """
    config = BenchConfig(
        target=target,
        workload=workload,
        out=out,
        num_programs=programs,
        rate_per_s=rate,
        seed=seed,
        model=model,
        api_key=api_key,
        timeout_s=timeout,
        max_model_len=max_model_len,
        context_margin=context_margin,
        end_programs=end_programs,
    )
    console, errors = Console(), Console(stderr=True)
    with progress_display(errors) as on_progress:
        result = run_bench(config, argv=sys.argv, on_progress=on_progress)
    if as_json:
        typer.echo(json.dumps(result.document["summary"], indent=1))
    else:
        print_table(result, console)
    print_warnings(result, errors)
    raise typer.Exit(result.exit_code)
