"""What a batch asks of the gateway beside its jobs' calls: how many engines there are, and to drop a program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx2

from agentix.offline.errors import OfflineError

_TIMEOUT_S = 5.0  # nobody waits longer for the gateway when the batch is given up


@asynccontextmanager
async def open_gateway(root: str, api_key: str | None) -> AsyncIterator[Gateway]:
    """Connect to the server at `root`, its URL without /v1."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx2.AsyncClient(base_url=root, headers=headers, timeout=_TIMEOUT_S) as client:
        yield Gateway(client, root)


class Gateway:
    """A gateway, or a server that is none: then there is one engine, and nothing to drop."""

    def __init__(self, client: httpx2.AsyncClient, root: str) -> None:
        self._client = client
        self._root = root

    async def num_engines(self) -> int:
        """Engines that can take calls, at least 1. Raises OfflineError if the server cannot be reached."""
        try:
            response = await self._client.get("/health")
        except (httpx2.HTTPError, OSError) as error:
            raise OfflineError(f"cannot reach {self._root}: {str(error) or type(error).__name__}") from error
        try:
            return max(1, sum(engine["healthy"] is True for engine in response.json()["engines"]))
        except (ValueError, KeyError, TypeError):
            return 1

    async def drop(self, program_id: str) -> None:
        """Abort the program's calls in their engines and end it. Best effort: the gateway does so itself after a while."""
        path = f"/v1/programs/{quote(program_id, safe='')}"
        for method, where in (("POST", f"{path}/cancel"), ("DELETE", path)):
            try:
                await self._client.request(method, where)
            except (httpx2.HTTPError, OSError):
                return
