"""Engines that die in the middle of things. Run as a program: one that computes for a while, to be killed."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fake_engine import FakeEngine, sse

NUM_WORDS = 5
_BEGINNINGS = {  # the first event of a stream in each dialect, by the path that it is asked for at
    "/v1/chat/completions": sse({"choices": [{"index": 0, "delta": {"content": "a"}}]}),
    "/v1/completions": sse({"choices": [{"index": 0, "text": "a"}]}),
    "/v1/responses": b"event: response.output_text.delta\n" + sse({"type": "response.output_text.delta", "delta": "a"}),
    "/v1/messages": b"event: content_block_delta\n"
    + sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
}


@dataclass
class Mortal(FakeEngine):
    """Dies of every call: a stream after `num_events` events of its dialect; anything else with `status`."""

    num_events: int = 1
    status: int = 500

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append((dict(request.headers), body))
        if body.get("stream"):
            return StreamingResponse(self.some_of(_BEGINNINGS[request.url.path]), media_type="text/event-stream")
        return JSONResponse({"error": {"message": "the engine core has died"}}, self.status)

    async def some_of(self, event: bytes) -> AsyncIterator[bytes]:
        for _ in range(self.num_events):
            yield event
            await asyncio.sleep(0.01)
        raise ConnectionError("the engine dies here")


@asynccontextmanager
async def hangs_up() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that reads a request and hangs up; gives its URL and what it has read. It is well when asked for its health."""
    posts: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        else:
            posts.append(head)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", posts


@asynccontextmanager
async def engine_process(log: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """An engine that is a process of its own; gives its URL. `log` gets a line for every call that it takes or completes."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, str(log), stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        yield line.decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class _Announcing(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    log = parser.parse_args().log

    def note(what: str, body: Any) -> None:
        with log.open("a") as file:  # complete before the next word is sent: nothing is lost when we are killed
            file.write(f"{what} {body['user']}\n")

    async def words(body: Any) -> AsyncIterator[bytes]:
        for _ in range(NUM_WORDS):
            await asyncio.sleep(0.02)
            yield sse({"choices": [{"index": 0, "delta": {"content": "w"}}]})
        note("done", body)
        yield b"data: [DONE]\n\n"

    async def complete(request: Request) -> Response:
        body = json.loads(await request.body())
        note("took", body)
        if body.get("stream"):
            return StreamingResponse(words(body), media_type="text/event-stream")
        await asyncio.sleep(0.1)
        note("done", body)
        return JSONResponse({"choices": [{"index": 0, "message": {"content": "w" * NUM_WORDS}}]})

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "fake"}]})

    async def health(request: Request) -> Response:
        return PlainTextResponse("")

    routes = [
        Route("/v1/chat/completions", complete, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
    ]
    _Announcing(uvicorn.Config(Starlette(routes=routes), port=0, log_level="critical", access_log=False)).run()


if __name__ == "__main__":
    main()
