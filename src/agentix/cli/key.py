"""`agentix key`."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from agentix.cli.extras import require

_PREFIX = "agx-"  # so that people, and scanners for leaked secrets, know it when they see it


def key(
    name: Annotated[str, typer.Argument(help="The tenant's name in the tenants file.")],
    admin: Annotated[bool, typer.Option("--admin", help="A tenant that sees and steers everything.")] = False,
) -> None:
    """Make an API key for a tenant.

    The key is shown this once, on standard error; the lines for the tenants file, which hold its digest alone, go to
    standard output.
    """
    require("gateway", "starlette")
    from agentix.gateway.tenants import check_name, key_digest  # noqa: PLC0415 - optional for other commands

    name, made = check_name(name), _PREFIX + secrets.token_urlsafe(32)
    typer.echo(f"The API key of {name}, to be handed over and kept nowhere else:\n\n  {made}\n", err=True)
    typer.echo(f'[tenant.{name}]\nkeys_sha256 = ["{key_digest(made).hex()}"]' + ("\nadmin = true" if admin else ""))
