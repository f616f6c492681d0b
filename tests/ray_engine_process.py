"""A stand-in for a vLLM engine process on a machine of a cluster: asks for its key.

A call with a `seed` is answered once that number has been released, by `POST /release/{number}`; of a stream all but the
first event waits for that. `GET /pid`: its process id. `GET /streams`: how many there are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from agentix.engine.child import run_guarded
from fake_engine import FakeEngine


class Engine(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.released = 0

    async def release(self, request: Request) -> Response:
        self.released = request.path_params["number"]
        return PlainTextResponse("")

    async def complete(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            return JSONResponse({"error": {"message": "Unauthorized"}}, 401)
        body = await request.json()
        if not body.get("stream"):
            await self.reach(body)
        return await super().complete(request)

    async def events(self, body: Any) -> AsyncIterator[bytes]:
        events = super().events(body)
        yield await anext(events)
        await self.reach(body)
        async for event in events:
            yield event

    async def reach(self, body: Any) -> None:
        """Wait for this call's number."""
        while self.released < body.get("seed", 0):
            await asyncio.sleep(0.02)

    async def streams(self, request: Request) -> Response:
        return PlainTextResponse(str(self.num_active))


async def pid(request: Request) -> Response:
    return PlainTextResponse(str(os.getpid()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    args, _ = parser.parse_known_args()
    engine = Engine()
    release = Route("/release/{number:int}", engine.release, methods=["POST"])
    app = Starlette(routes=[Route("/pid", pid), Route("/streams", engine.streams), release, Mount("", engine.app)])
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    run_guarded(main, grace_s=0.5)
