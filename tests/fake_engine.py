"""A stand-in for an engine, for speed and for faults that a real one does not produce on demand. Computes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentix.gateway.server import KEPT_S

METRICS = {"queue_time_ms": 250.0, "time_to_first_token_ms": 500.0, "generation_time_ms": 1500.0}
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass
class FakeEngine:
    """Answers like vLLM with per-request metrics. `mode`: ok, hang, break, refuse (an error of its own), plain (no figures).

    `answer` replaces what a call would get.
    """

    mode: str = "ok"
    healthy: bool = True
    answer: Response | None = None
    requests: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    num_active: int = 0
    num_cancelled: int = 0

    @property
    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/v1/responses", self.complete, methods=["POST"]),
                Route("/v1/messages", self.complete, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/health", self.health),
            ]
        )

    @property
    def last_headers(self) -> dict[str, str]:
        """Headers of the latest call."""
        return self.requests[-1][0]

    @property
    def last_body(self) -> Any:
        """Body of the latest call."""
        return self.requests[-1][1]

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("", 200 if self.healthy else 503)

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "fake", "object": "model", "max_model_len": 4096}]})

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append((dict(request.headers), body))
        if self.answer is not None:
            return self.answer
        if self.mode == "refuse":
            return JSONResponse({"error": {"message": "max_tokens is too large"}}, 400, headers={"x-engine": "fake"})
        if body.get("stream"):
            return StreamingResponse(self.events(body), media_type="text/event-stream")
        if self.mode == "hang":
            await self.hang(request)
        answer: dict[str, Any] = {"id": "x", "choices": [{"index": 0, "message": {"content": "héllo"}}], "usage": USAGE}
        return JSONResponse(answer if self.mode == "plain" else {**answer, "metrics": METRICS}, headers={"x-engine": "fake"})

    async def hang(self, request: Request) -> None:
        """Compute for ever, as an engine does for a client that stays; stop when it goes."""
        self.num_active += 1
        while not await request.is_disconnected():
            await asyncio.sleep(0.01)
        self.num_active -= 1
        self.num_cancelled += 1

    async def events(self, body: Any) -> AsyncIterator[bytes]:
        self.num_active += 1
        try:
            for token in ("hé", "ll", "o"):
                yield sse({"choices": [{"index": 0, "delta": {"content": token}}]})
            if self.mode == "break":
                raise ConnectionError("the engine dies here")
            while self.mode == "hang":
                await asyncio.sleep(0.01)
                yield sse({"choices": [{"index": 0, "delta": {"content": "."}}]})
            if body.get("stream_options", {}).get("include_usage"):
                yield sse({"choices": [], "usage": USAGE, **({} if self.mode == "plain" else {"metrics": METRICS})})
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_active -= 1


def sse(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


class _Server(uvicorn.Server):
    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        task = asyncio.create_task(self._serve())
        while not self.started:
            await asyncio.sleep(0.005)
        port = self.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            self.should_exit = True
            await task


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on a free loopback port; gives its root URL."""
    config = uvicorn.Config(
        app,
        port=0,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=KEPT_S,  # as the real one: its own 5 s are those after which clients drop idle connections too
    )
    async with _Server(config).running() as url:
        yield url
