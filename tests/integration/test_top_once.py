"""`agentix top --once`, in front of the real gateway."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

import pytest
from typer.testing import CliRunner

from agentix.cli import app
from agentix.core.errors import ConfigError
from agentix.gateway.tenants import Tenant, Tenants, key_digest
from agentix.ui.feed import GatewayFault
from fake_engine import FakeEngine
from gateway_system import gateway


async def top(*options: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, app, ["top", *options])


async def test_scripts_get_rows_as_the_gateway_has_them() -> None:
    async with gateway(FakeEngine()) as system:
        for program_id in ("a/1", "b"):
            await system.chat({"X-Agentix-Program": program_id})
        told = json.loads((await top("--gateway", f"{system.url}/v1", "--json")).stdout)
        assert (told["gateway"], [row["id"] for row in told["programs"]]) == (system.url, ["a/1", "b"])
        assert told["programs"][0].keys() == (await system.program("b")).keys()
        assert [engine["id"] for engine in told["engines"]] == ["e0"]
        lines = (await top("--gateway", system.url, "--once")).stdout.splitlines()
        assert lines[0] == "2 programs · 2 idle · 1 of 1 engines healthy · by state"
        assert lines[1].split()[:3] == ["PROGRAM", "CLASS", "STATE"]
        assert [line.split()[0] for line in lines[2:]] == ["a/1", "b"]


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    key = secrets.token_hex(32)
    tenants = Tenants((Tenant(name="x", key_digests=(key_digest(key),)),))
    async with gateway(FakeEngine(), tenants=tenants) as system:
        await system.post("/v1/programs", {"program_id": "p"}, {"authorization": f"Bearer {key}"})
        monkeypatch.delenv("AGENTIX_API_KEY", raising=False)
        refused = (await top("--gateway", system.url, "--json")).exception
        assert isinstance(refused, GatewayFault)
        assert "AGENTIX_API_KEY" in str(refused)
        monkeypatch.setenv("AGENTIX_API_KEY", key)
        told = json.loads((await top("--gateway", system.url, "--json")).stdout)
        assert ([row["id"] for row in told["programs"]], told["engines"]) == (["p"], [])  # engines are for admins


async def test_what_cannot_be_a_gateway_is_refused_before_anything_is_asked() -> None:
    refused = (await top("--url", "localhost:8080", "--once")).exception
    assert isinstance(refused, ConfigError)
    assert str(refused) == "the gateway's URL starts with http:// or https://, not 'localhost:8080'"
    for url in ("http://", "http://:8080", "http://gateway:port", "http://gateway:99999", "http://gateway:0"):
        refused = (await top("--url", url, "--once")).exception
        assert isinstance(refused, ConfigError)
        assert str(refused).endswith(f"is http://HOST or http://HOST:PORT, or the same with https, not {url!r}")


async def test_without_a_terminal_there_is_no_screen() -> None:
    refused = (await top("--url", "http://127.0.0.1:9")).exception
    assert isinstance(refused, ConfigError)
    assert str(refused) == "agentix top needs a terminal for its screen; elsewhere use --once, or --json"
