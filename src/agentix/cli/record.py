"""`agentix record`: a gateway's traffic as a trace file."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from agentix.cli.extras import require

if TYPE_CHECKING:
    from agentix.record.run import RecordConfig, Recorded


def record(
    out: Annotated[Path, typer.Option(help="Trace file: .jsonl, or .jsonl.gz to compress it.")],
    url: Annotated[
        str, typer.Option(metavar="URL", help="The gateway; its key, if it asks for one, is in AGENTIX_API_KEY.")
    ] = "http://127.0.0.1:8080",
    with_text: Annotated[
        bool,
        typer.Option(
            "--with-text",
            help="Record what prompts say too, so that the file can be replayed (`agentix bench`, `agentix ab`). "
            "It then holds everything that users and tools have sent, secrets in it included; only you may read it.",
        ),
    ] = False,
) -> None:
    """Record what a gateway serves until Ctrl-C: programs, calls, lengths, gaps, and what prompts share; text only if asked to.

    The file can be simulated (`agentix simulate`, `agentix recommend`). Exits with 1 if calls are missing in it.
    """
    require("bench", "httpx2")
    from agentix.record.run import RecordConfig  # noqa: PLC0415 - needs the HTTP library

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    recorded = asyncio.run(_record(RecordConfig(url=url, out=out, with_text=with_text), errors))
    print_recorded(recorded, out, errors, with_text=with_text)
    raise typer.Exit(0 if recorded.is_whole else 1)


async def _record(config: RecordConfig, errors: Console) -> Recorded:
    from agentix.record.run import record as listen  # noqa: PLC0415 - as above

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with errors.status("asking the gateway") as status:
        has_begun = False

        def on_progress(num_calls: int) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                what = ", and what prompts say" if config.with_text else ""
                errors.print(f"recording {config.url}{what}; Ctrl-C ends it", markup=False)
            status.update(f"{num_calls} calls so far")

        return await listen(config, stop=stop, environ=os.environ, on_progress=on_progress)


def print_recorded(recorded: Recorded, out: Path, console: Console, *, with_text: bool = False) -> None:
    """What is in the file, and what is not."""
    lines = [f"{out}: {len(recorded.programs)} programs, {recorded.num_calls} calls"]
    if recorded.num_left_out:
        lines.append(f"{recorded.num_left_out} calls did not end well and are not in it")
    if recorded.num_begun_before:
        lines.append(f"{recorded.num_begun_before} of the programs had begun before: their earlier calls are not in it")
    if recorded.num_lost:
        lines.append(f"{recorded.num_lost} calls were lost: the gateway had to drop them before they were asked for")
    if with_text and recorded.programs:
        lines.append("it holds the prompts as they were sent, with whatever is in them")
        if recorded.num_without_text:
            lines.append(f"{recorded.num_without_text} calls have no text: their programs cannot be replayed")
    if recorded.problem is not None:
        lines.append(f"it ended too early: {recorded.problem}")
    for line in lines:
        console.print(line, markup=False)
