"""A stand-in for a vLLM engine process on a machine of a cluster: asks for its key.

A call with a `seed` is answered once that number has been released, by `POST /release/{number}`. `GET /pid`: its process id.
"""

from __future__ import annotations

import argparse
import asyncio
import os

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
        number = (await request.json()).get("seed", 0)
        while self.released < number:
            await asyncio.sleep(0.02)
        return await super().complete(request)


async def pid(request: Request) -> Response:
    return PlainTextResponse(str(os.getpid()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    args, _ = parser.parse_known_args()
    engine = Engine()
    release = Route("/release/{number:int}", engine.release, methods=["POST"])
    app = Starlette(routes=[Route("/pid", pid), release, Mount("", engine.app)])
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    run_guarded(main, grace_s=0.5)
