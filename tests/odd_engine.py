"""Engines over raw sockets: connections that close under a call, answers that come late, figures that make no sense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fake_engine import FakeEngine


@dataclass
class OddEngine(FakeEngine):
    """Says odd things beside its answers: `listed` as its models, `gauges` as its metrics. `silent`: not of its health.

    `priority`: it says that it serves by priority.
    """

    listed: Any = None
    gauges: str = ""
    silent: bool = False
    priority: bool = False
    num_health: int = 0
    num_metrics: int = 0

    @property
    def app(self) -> Starlette:
        app = super().app
        app.routes.extend([Route("/metrics", self.metrics), Route("/server_info", self.info)])
        return app

    async def health(self, request: Request) -> Response:
        self.num_health += 1
        while self.silent and not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return await super().health(request)

    async def models(self, request: Request) -> Response:
        return await super().models(request) if self.listed is None else JSONResponse(self.listed)

    async def info(self, request: Request) -> Response:
        policy = "priority" if self.priority else "fcfs"
        return JSONResponse({"vllm_config": {"scheduler_config": {"policy": policy}}})

    async def metrics(self, request: Request) -> Response:
        self.num_metrics += 1
        return PlainTextResponse(self.gauges)


_ANSWER = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}}]}).encode()


@asynccontextmanager
async def closes_under_a_call(closes: Callable[[int, int], bool]) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that answers calls over connections that it keeps; gives its URL, and how many calls came over each of them.

    It closes a connection instead of answering if `closes(connection, request)` says so, each counted from 0: what happens
    to a request that is sent into a connection which the server is just closing because it was idle.
    """
    num_calls: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number: int | None = None
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
                await reader.readexactly(length)
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    break
                if number is None:
                    number = len(num_calls)
                    num_calls.append(0)
                num_calls[number] += 1
                if closes(number, num_calls[number] - 1):
                    break
                answered = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                writer.write(answered % (len(_ANSWER), _ANSWER))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", num_calls
