"""`agentix top`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentix.cli.extras import require
from agentix.core.errors import ConfigError
from agentix.wire import key_headers, require_http, server_root

if TYPE_CHECKING:
    from agentix.ui.feed import Feed

_FILE_WIDTH = 240  # of a table that goes to a file or a pipe: all columns whole


def top(
    gateway: Annotated[
        str, typer.Option("--gateway", "--url", metavar="URL", help="Address of the gateway.")
    ] = "http://127.0.0.1:8080",
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object, with rows as in /v1/programs.")] = False,
) -> None:
    """Watch programs and steer them: pause, resume, cancel. A key, if the gateway asks for one, is read from AGENTIX_API_KEY.

    Keys: q quit, p pause, r resume, c cancel, / filter, s sort.
    """
    once = once or as_json
    require_http(gateway, "the gateway's")
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("agentix top needs a terminal for its screen; elsewhere use --once, or --json")
    require("ui", "httpx2", *([] if once else ["textual"]))
    asyncio.run(_run(server_root(gateway), once=once, as_json=as_json))


async def _run(url: str, *, once: bool, as_json: bool) -> None:
    import httpx2  # noqa: PLC0415 - optional for other commands

    from agentix.ui.feed import Feed  # noqa: PLC0415

    async with httpx2.AsyncClient(base_url=url, headers=key_headers(os.environ), timeout=10.0, trust_env=False) as client:
        feed = Feed(client)
        if not once:
            from agentix.ui.terminal import Top  # noqa: PLC0415

            await Top(feed).run_async()
            return
        await feed.poll()
        if as_json:
            typer.echo(json.dumps({"gateway": url, "programs": list(feed.rows.values()), "engines": feed.engines}))
        else:
            _print(feed)


def _print(feed: Feed) -> None:
    from agentix.ui.columns import COLUMNS, summary  # noqa: PLC0415

    programs, now_s = list(feed.shown("", sort="state")), feed.now_s()
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        is_short = column.is_number or column.label == "STATE"  # where the screen is narrow, names and reasons are cut
        table.add_column(column.label, justify="right" if column.is_number else "left", no_wrap=is_short)
    for program in programs:
        table.add_row(*(column.cell(program, now_s) for column in COLUMNS))
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _FILE_WIDTH)
    console.print(summary(feed, num_shown=len(programs), sort="state", words=""), markup=False)
    console.print(table)
