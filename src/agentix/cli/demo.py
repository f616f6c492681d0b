"""`agentix demo`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from agentix.cli.extras import require
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES

if TYPE_CHECKING:
    from agentix.demo.run import Demo, DemoConfig


def demo(
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="An OpenAI-compatible server. Default: what `make serve` starts, else an engine of our own."
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help=f"To compare with fcfs: {', '.join(POLICIES.names)}, or your own as module:Class.")
    ] = SchedulerConfig().policy,
    slots: Annotated[int, typer.Option(min=1, help="Calls that are with the server at a time; the others wait.")] = 2,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Picture of who was served when (SVG).")] = Path("agentix-demo.svg"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, nothing else.")] = False,
) -> None:
    """Watch seven agent programs share a server: first with calls in order of arrival, then scheduled by program.

    It shows what program scheduling does; how much it is worth, `agentix ab` measures. A key, if the server asks for one, is
    read from AGENTIX_API_KEY.
    """
    require("gateway", "starlette", "uvicorn", "httpx2", "aiohttp", "prometheus_client", "psutil")
    from agentix.demo.result import document, note, result_lines, write_picture  # noqa: PLC0415 - heavy, and optional elsewhere
    from agentix.demo.run import DemoConfig  # noqa: PLC0415

    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise ConfigError(f"cannot write to {out}: not a file in a writable folder")
    console = Console(highlight=False, soft_wrap=True)
    shown = asyncio.run(_run(DemoConfig(url=url, policy=policy, num_slots=slots), console, quiet=as_json))
    write_picture(shown, out)
    if as_json:
        typer.echo(json.dumps(document(shown, out), indent=1))
        return
    console.print("", *result_lines(shown), sep="\n", markup=False)
    if told := note(shown):
        console.print(told, markup=False)
    console.print(f"picture: {out.resolve()} (one run of each on this machine, no measurement)", markup=False)


async def _run(config: DemoConfig, console: Console, *, quiet: bool) -> Demo:
    from agentix.demo.display import board  # noqa: PLC0415 - heavy, and optional elsewhere
    from agentix.demo.run import run_demo  # noqa: PLC0415

    def say(line: str) -> None:
        if not quiet:
            console.print(line, markup=False)

    if quiet:
        return await run_demo(config, on_progress=say, on_change=lambda _: None)
    with Live(console=console, auto_refresh=False) as live:
        return await run_demo(config, on_progress=say, on_change=lambda arms: live.update(board(arms), refresh=True))
