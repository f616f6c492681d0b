"""`agentix ab`: compare ways of scheduling on a real engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from agentix.ab.arms import STOCK_FCFS, arm_names, find_arm
from agentix.cli.extras import require
from agentix.core.errors import ConfigError

if TYPE_CHECKING:
    from agentix.ab.run import AbResult


def ab(
    model: Annotated[str, typer.Argument(help="Model: a directory, a hub name, or built in: smollm2-135m, tiny-random.")],
    workload: Annotated[
        str,
        typer.Option(metavar="FILE[:NUM],…", help="Traces with text, and how many programs of each; default: equal shares."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the results.")],
    vllm_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- VLLM_ARGS…]", help="Everything after -- goes to vLLM, in every arm.")
    ] = None,
    arms: Annotated[
        str, typer.Option(metavar="A,…", help=f"The first is what others are compared with: {', '.join(arm_names())}.")
    ] = "stock-fcfs,default",
    programs: Annotated[int | None, typer.Option(min=1, help="Programs per run, unless every FILE has its NUM.")] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="R,…", help="Programs per second, Poisson arrivals; inf: all at once.")
    ] = None,
    load: Annotated[str | None, typer.Option(metavar="L,…", help="Instead of rates: multiples of the saturation.")] = None,
    saturation: Annotated[
        float | None, typer.Option(help="Programs per second, for --load; default: measured first, all programs at once.")
    ] = None,
    find_saturation: Annotated[bool, typer.Option("--find-saturation", help="Measure the saturation, nothing else.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of every arm at every load, each repeat with other programs.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the first repeat; the others count up from it.")] = 0,
    quanta: Annotated[
        str | None, typer.Option(metavar="S,…", help="Quantum of each level, in seconds, in the plug-in's arms.")
    ] = None,
    starvation_ratio: Annotated[
        float | None, typer.Option(min=0, help="In the plug-in's arms: promote a call once waiting is this many times service.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one call may take.")] = 3600.0,
    max_model_len: Annotated[int | None, typer.Option(help="Context in tokens; default: what the engine says.")] = None,
    context_margin: Annotated[float, typer.Option(help="Model tokens per token of a trace, at most.")] = 1.3,
    start_timeout: Annotated[float, typer.Option(min=1, help="Seconds an engine may take to become healthy.")] = 600.0,
    engine_cpus: Annotated[
        str | None, typer.Option(metavar="C,…", help="CPUs that the engine computes on, such as 0 or 0-3; default: any.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the runs that --out holds, and do the others.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of tables.")] = False,
) -> None:
    """Run the same programs on a fresh engine in every arm, arms interleaved and repeated, and compare them.

    Exits with 1 if a call failed, 2 if a run could not start, 130 if it was interrupted; --resume goes on from there.

    \b
    agentix ab smollm2-135m --workload chat.jsonl.gz:25,react.jsonl.gz:25 \\
        --arms stock-fcfs,plas,plas-recompute --load 0.7,1,1.5 \\
        --out results -- --max-num-seqs 16
    """  # noqa: D301  (\b keeps click from reflowing the example)
    require("gateway", "starlette", "uvicorn", "httpx2", "aiohttp", "prometheus_client", "psutil")
    from agentix.ab.config import AbConfig, parse_workload  # noqa: PLC0415 - heavy, and optional for other commands
    from agentix.ab.display import display  # noqa: PLC0415
    from agentix.ab.run import run_ab  # noqa: PLC0415

    if sum((rate is not None, load is not None, find_saturation)) != 1:
        raise ConfigError("give one of --rate, --load and --find-saturation")
    settings = _plugin_settings(quanta, starvation_ratio)
    config = AbConfig(
        model=model,
        workload=parse_workload(workload, programs),
        out=out,
        arms=(STOCK_FCFS,) if find_saturation else tuple(find_arm(name.strip(), settings) for name in arms.split(",")),
        rates_per_s=_numbers("rate", rate),
        loads=_numbers("load", load),
        saturation_per_s=saturation,
        num_repeats=repeat,
        seed=seed,
        vllm_args=tuple(vllm_args or ()),
        resume=resume,
        timeout_s=timeout,
        max_model_len=max_model_len,
        context_margin=context_margin,
        start_timeout_s=start_timeout,
        engine_cpus=engine_cpus,
    )
    errors = Console(stderr=True)
    with display(errors) as observer:
        result = run_ab(config, observer)
    _print(result, first_arm=config.arms[0].name, as_json=as_json, errors=errors)
    raise typer.Exit(result.exit_code)


def _print(result: AbResult, *, first_arm: str, as_json: bool, errors: Console) -> None:
    from agentix.ab.display import print_notes, print_tables  # noqa: PLC0415 - as above

    if as_json:
        typer.echo(json.dumps(result.document, indent=1, allow_nan=False))
    else:
        if result.saturation_per_s is not None:
            typer.echo(f"saturation: {result.saturation_per_s:.4g} programs/s")
        if result.runs:
            print_tables(result.runs, first_arm=first_arm, console=Console())
    print_notes(result.runs, errors)
    if not result.is_complete:
        errors.print("interrupted: the results are those of the runs that were complete", highlight=False)


def _plugin_settings(quanta: str | None, starvation_ratio: float | None) -> dict[str, Any]:
    """What the user said of the scheduler; the plug-in has defaults for the rest."""
    settings: dict[str, Any] = {}
    if quanta is not None:
        settings["quanta_s"] = list(_numbers("quanta", quanta))
    if starvation_ratio is not None:
        settings["starvation_ratio"] = starvation_ratio or None
    return settings


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(item) for item in text.split(",")) if text is not None else ()
    except ValueError:
        raise ConfigError(f"--{option} must be numbers separated by commas, not {text!r}") from None
