"""A program of the client SDK as the gateway has seen it: who came after whom, in how many threads, on which critical path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai

import agentix
from agentix.core.events import CallArrived, ProgramEnded
from gateway_system import System, eventually, gateway


@dataclass
class Seen:
    """Calls by the order in which they arrived."""

    url: str
    system: System
    clients: AsyncExitStack
    arrived: list[CallArrived] = field(default_factory=list)
    totals: list[tuple[str | None, float, float]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        """What OpenAI clients are given."""
        return f"{self.url}/v1"

    async def openai_client(self) -> openai.AsyncOpenAI:
        """The SDK's client of this gateway, for frameworks that do not close theirs; closed at the end."""
        client = openai.AsyncOpenAI(base_url=self.base_url, api_key="k", max_retries=0)
        return await self.clients.enter_async_context(client)

    @property
    def parents(self) -> list[set[int]]:
        """For each call the numbers of those it depends on. Fails if they are not all of one program."""
        assert len({event.program_id for event in self.arrived}) == 1
        numbers = {event.call_id: number for number, event in enumerate(self.arrived)}
        return [{numbers[p] for p in event.parents or ()} for event in self.arrived]

    @property
    def shape(self) -> list[tuple[int, int]]:
        """(length of the longest path that leads to it, how many it depends on) of every call, in no order of arrival."""
        depths: list[int] = []
        for parents in self.parents:
            depths.append(max((depths[p] + 1 for p in parents), default=0))
        return sorted((depth, len(parents)) for depth, parents in zip(depths, self.parents, strict=True))

    @property
    def num_threads(self) -> int:
        """How many chains the calls are in."""
        return len({event.thread_id for event in self.arrived})

    @property
    def total(self) -> tuple[str | None, float, float]:
        """(class, service in seconds, critical path in seconds) of the one program that has ended."""
        (total,) = self.totals
        return total

    async def ended(self) -> None:
        """Wait until the gateway has been told that the program is over."""
        await eventually(lambda: bool(self.totals))


@asynccontextmanager
async def seen_program(*engines: Any, **config: Any) -> AsyncIterator[Seen]:
    """A gateway in front of engines, and what it sees. The SDK is on within, and off again after."""
    agentix.instrument()
    try:
        async with gateway(*engines, **config) as system, AsyncExitStack() as clients:
            await system.models_known()
            seen = Seen(system.url, system, clients)
            apply = system.table.apply

            def keep(event: Any) -> Any:
                if isinstance(event, CallArrived):
                    seen.arrived.append(event)
                if isinstance(event, ProgramEnded):
                    row = system.table.row(event.program_id)
                    seen.totals.append((row.program_class, row.service_s, max(row.path_s.values(), default=0.0)))
                return apply(event)

            system.table.apply = keep  # type: ignore[method-assign]
            yield seen
    finally:
        agentix.uninstrument()
