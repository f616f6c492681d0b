"""`agentix engines`: look at a running gateway's engines, add and remove them, keep calls from them."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

from agentix.cli.extras import require
from agentix.wire import key_headers, server_root

engines = typer.Typer(no_args_is_help=True, help="Engines of a running gateway: list, add, remove, drain, undrain.")

_Id = Annotated[str, typer.Argument(metavar="ID", help="The engine's id.")]
_Gateway = Annotated[str, typer.Option(metavar="URL", help="The gateway; its key, if it asks for one, is in AGENTIX_API_KEY.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
_HERE = "http://127.0.0.1:8080"


@engines.command("list")
def list_engines(gateway: _Gateway = _HERE, as_json: _Json = False) -> None:
    """Show all engines."""
    answer = _ask(gateway, "GET", "")
    _show(answer if as_json else answer["data"], as_json=as_json)


@engines.command("add")
def add(
    engine_id: _Id,
    url: Annotated[str, typer.Argument(metavar="URL", help="Its address.")],
    plugin: Annotated[bool, typer.Option("--plugin", help="It runs Agentix's scheduler.")] = False,
    gateway: _Gateway = _HERE,
    as_json: _Json = False,
) -> None:
    """Add an engine that runs already."""
    _show(_ask(gateway, "POST", "", {"id": engine_id, "url": url, "plugin": plugin}), as_json=as_json)


@engines.command("remove")
def remove(
    engine_id: _Id,
    now: Annotated[bool, typer.Option("--now", help="Break its calls off; those not answering yet move.")] = False,
    gateway: _Gateway = _HERE,
    as_json: _Json = False,
) -> None:
    """Let an engine finish its calls, and forget it."""
    _show(_ask(gateway, "DELETE", f"/{quote(engine_id, safe='')}?now={str(now).lower()}"), as_json=as_json)


@engines.command("drain")
def drain(engine_id: _Id, gateway: _Gateway = _HERE, as_json: _Json = False) -> None:
    """Send an engine no more calls; it finishes those that it has."""
    _show(_ask(gateway, "POST", f"/{quote(engine_id, safe='')}/drain", {}), as_json=as_json)


@engines.command("undrain")
def undrain(engine_id: _Id, gateway: _Gateway = _HERE, as_json: _Json = False) -> None:
    """Send an engine calls again."""
    _show(_ask(gateway, "POST", f"/{quote(engine_id, safe='')}/undrain", {}), as_json=as_json)


def _ask(gateway: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The gateway's answer. Raises GatewayFault."""
    require("gateway", "httpx2")
    import httpx2  # noqa: PLC0415 - heavy, and optional for other commands

    from agentix.ui.feed import read_answer, unreachable  # noqa: PLC0415

    url = f"{server_root(gateway)}/v1/engines{path}"
    try:
        response = httpx2.request(method, url, json=body, headers=key_headers(os.environ), timeout=30.0, trust_env=False)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise unreachable(gateway, error) from None
    return read_answer(response)


def _show(answer: Any, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(answer))
        return
    table = Table("engine", "state", "calls", "url")
    for row in answer if isinstance(answer, list) else [answer]:
        table.add_row(row["id"], _state(row), str(row["num_calls"]), row["url"])
    Console(highlight=False, soft_wrap=True).print(table)


def _state(row: dict[str, Any]) -> str:
    if row.get("removed"):
        return "removed"
    ways = [("leaving", row["leaving"]), ("draining", row["draining"]), ("unhealthy", not row["healthy"])]
    return next((name for name, holds in ways if holds), "up" if row["breaker"] == "closed" else f"breaker {row['breaker']}")
