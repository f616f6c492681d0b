"""A gateway over real sockets, in front of engines that live in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from agentix.cluster.table import TableKeeper
from agentix.core import ProcessTable
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.observer import Observer
from fake_engine import served

CHAT = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}


@dataclass
class System:
    """A gateway, its client, and the engines behind it."""

    client: httpx2.AsyncClient
    url: str
    engines: list[Any]
    app: Starlette

    @property
    def table(self) -> ProcessTable:
        """The gateway's process table."""
        table = self.app.state.table
        assert isinstance(table, ProcessTable)
        return table

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        """One request to the gateway."""
        return await self.client.post(path, json=body, headers=headers)

    async def chat(self, headers: dict[str, str] | None = None, **body: Any) -> httpx2.Response:
        """A small chat call; `body` holds more fields of it."""
        return await self.post("/v1/chat/completions", {**CHAT, **body}, headers)

    async def program(self, program_id: str) -> Any:
        """The program's row, as the gateway shows it."""
        return (await self.client.get(f"/v1/programs/{program_id}")).json()

    async def models_known(self) -> None:
        """Wait until the gateway has every engine's list of models."""
        await eventually(lambda: all(s.models is not None for s in self.app.state.pool.states.values()))


@asynccontextmanager
async def gateway(
    *engines: Any,
    plugin: bool = False,
    extra: tuple[str, ...] = (),
    observers: tuple[Observer, ...] = (),
    table: TableKeeper | None = None,
    **config: Any,
) -> AsyncIterator[System]:
    """A gateway in front of the servers at `extra` and of `engines` (each with an ASGI `app`), as e0, e1, …

    `table` keeps its process table.
    """
    async with AsyncExitStack() as stack:
        urls = [*extra, *[await stack.enter_async_context(served(e.app)) for e in engines]]
        targets = tuple(EngineTarget(engine_id=f"e{i}", url=u, plugin=plugin) for i, u in enumerate(urls))
        settings = GatewayConfig(engines=targets, **{"health_period_s": 0.05, **config})
        if table is not None:
            observers = (*observers, *table.observers)
        app = create_app(settings, observers=observers, companions=() if table is None else (table.beside,))
        url = await stack.enter_async_context(served(app))
        client = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, trust_env=False))
        yield System(client, url, list(engines), app)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds; fail if it never does."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the condition never came true")
