"""The server under test, over HTTP. The only module that imports the HTTP library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from agentix.bench.clock import Clock
from agentix.bench.config import BenchConfig
from agentix.bench.errors import BenchError
from agentix.bench.reply import Reply, count_in, error_text
from agentix.bench.sse import event_data

_SIDE_TIMEOUT_S = 10.0  # for everything that is not a call
_MAX_IDLE = 32  # idle connections kept: the pool looks at each of them whenever a call starts
_NO_PROGRAMS_HERE = {404, 405, 501}  # what a server without programs says to DELETE /v1/programs/{id}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model that the calls name, and its context in tokens if the server tells."""

    name: str
    max_model_len: int | None


@asynccontextmanager
async def open_target(
    config: BenchConfig, *, clock: Clock, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncIterator[Target]:
    """Connect. The pool is unlimited: an open loop must not queue in its own client."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "agentix-bench"}
    if config.api_key:
        headers["Authorization"] = f"Bearer {config.api_key}"
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE)
    async with httpx2.AsyncClient(
        base_url=config.base_url, headers=headers, limits=limits, timeout=None, transport=transport
    ) as client:
        yield Target(client, config, clock)


class Target:
    """The three things a benchmark asks of a server. Errors never show the API key, even if the server repeats it."""

    def __init__(self, client: httpx2.AsyncClient, config: BenchConfig, clock: Clock) -> None:
        self._client = client
        self._config = config
        self._clock = clock

    async def served_model(self) -> ServedModel:
        """The configured model, or the only one there is. Raises BenchError if the target cannot serve it."""
        wanted = self._config.model
        offered = await self._offered_models()
        if wanted is None and len(offered) == 1:
            return next(iter(offered.values()))
        if wanted is None:
            serves = f"serves {', '.join(sorted(offered))}" if offered else "lists no models"
            raise BenchError(f"{self._config.base_url} {serves}: name one with --model")
        if offered and wanted not in offered:
            raise BenchError(f"{self._config.base_url} does not serve {wanted!r}; it serves {', '.join(sorted(offered))}")
        return offered.get(wanted, ServedModel(wanted, None))

    async def chat(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send one streaming call and read it to its end. Failures come back in `Reply.error`."""
        reply = Reply()
        try:
            async with asyncio.timeout(self._config.timeout_s):
                await self._stream(reply, body, headers)
        except TimeoutError:
            reply.error = f"timed out after {self._config.timeout_s:g} s"
        except (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError) as error:
            reply.error = self._without_key(f"{type(error).__name__}: {error}")
        reply.end_s = self._clock.now()
        return reply

    async def end_program(self, program_id: str) -> str | None:
        """Tell the server that a program is over. Returns what went wrong; a server without programs is fine."""
        try:
            response = await self._client.delete(f"/v1/programs/{program_id}", timeout=_SIDE_TIMEOUT_S)
        except (httpx2.HTTPError, OSError) as error:
            return self._without_key(f"{type(error).__name__}: {error}")
        if response.is_success or response.status_code in _NO_PROGRAMS_HERE:
            return None
        return f"HTTP {response.status_code}: {self._explained(response)}"

    async def _stream(self, reply: Reply, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        content = json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        async with self._client.stream("POST", "/v1/chat/completions", content=content, headers=sent) as response:
            if not response.is_success:
                await response.aread()
                reply.error = f"HTTP {response.status_code}: {self._explained(response)}"
                return
            async for data in event_data(response.aiter_bytes()):
                reply.read(data, self._clock.now())
        if not reply.is_finished:
            reply.error = "broken stream: it ended before the answer did"

    async def _offered_models(self) -> dict[str, ServedModel]:
        try:
            response = await self._client.get("/v1/models", timeout=_SIDE_TIMEOUT_S)
        except (httpx2.HTTPError, OSError) as error:
            problem = self._without_key(str(error) or type(error).__name__)
            raise BenchError(f"cannot reach {self._config.base_url}: {problem}") from error
        if response.status_code in {401, 403}:
            raise BenchError(f"{self._config.base_url} refuses the API key: {self._explained(response)}")
        try:
            listed = response.json()["data"] if response.is_success else []
            return {item["id"]: ServedModel(item["id"], count_in(item, "max_model_len")) for item in listed}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{self._config.base_url}/v1/models is not a list of models") from error

    def _explained(self, response: httpx2.Response) -> str:
        try:
            return self._without_key(error_text(response.json()))
        except ValueError:
            return self._without_key(error_text(response.text))

    def _without_key(self, text: str) -> str:
        return text.replace(self._config.api_key, "***") if self._config.api_key else text
