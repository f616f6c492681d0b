"""A stand-in for an engine of an A/B run: vLLM's arguments, chat completions in streams, and its counters.

It serves one call after the other, a fixed time per token: first come first served; in order of `priority` with
`--scheduling-policy priority`; with the plug-in those of the program first that has had the least service, as the gateway says.

--fake-token-s S     seconds per token
--fake-refuse        answer every chat completion with HTTP 400
--fake-die-after N   exit with status 9 when N calls have been answered
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentix.engine.child import run_guarded
from fake_engine import sse

PARKED = "ParkingCounts(num_parks=3, num_resumes=2, num_evictions=1, evicted_tokens=40)"


class Engine:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.queue: asyncio.PriorityQueue[tuple[float, int, asyncio.Event]] = asyncio.PriorityQueue()
        self.order = itertools.count()
        self.num_answered = 0
        self.next_free = asyncio.Lock()

    def place(self, body: dict[str, Any]) -> float:
        if self.args.additional_config is not None:
            return float(body["vllm_xargs"]["agentix_service_s"])
        assert "vllm_xargs" not in body, "stock engines get no totals"
        assert self.args.scheduling_policy == "priority" or not body.get("priority"), "vLLM refuses a priority that it ignores"
        return float(body.get("priority", 0))

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        if self.args.fake_refuse:
            return JSONResponse({"error": {"message": "the prompt is too long"}}, 400)
        turn = asyncio.Event()
        self.queue.put_nowait((self.place(body), next(self.order), turn))
        return StreamingResponse(self.answer(body["max_tokens"], turn), media_type="text/event-stream")

    async def serve_queue(self) -> None:
        """Give one call its turn at a time; the call's answer lets the next go."""
        while True:
            await self.next_free.acquire()
            _, _, turn = await self.queue.get()
            turn.set()

    async def answer(self, num_tokens: int, turn: asyncio.Event) -> AsyncIterator[bytes]:
        await turn.wait()
        try:
            await asyncio.sleep(num_tokens * self.args.fake_token_s)
        finally:
            self.next_free.release()
        self.num_answered += 1
        if self.num_answered == self.args.fake_die_after:
            print("the fake engine dies", flush=True)
            os._exit(9)
        yield sse({"choices": [{"delta": {"content": "w"}, "finish_reason": "length"}]})
        service_ms = 1000 * num_tokens * self.args.fake_token_s
        usage = {"prompt_tokens": 10, "completion_tokens": num_tokens, "prompt_tokens_details": {"cached_tokens": 4}}
        metrics = {"queue_time_ms": 0.0, "time_to_first_token_ms": service_ms, "generation_time_ms": 0.0}
        yield sse({"choices": [], "usage": usage, "metrics": metrics})
        yield b"data: [DONE]\n\n"

    async def metrics(self, request: Request) -> Response:
        text = f'# HELP vllm:num_preemptions_total x\nvllm:num_preemptions_total{{engine="0"}} {float(self.num_answered)}\n'
        return PlainTextResponse(text)

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": "0.32.0"})

    async def models(self, request: Request) -> Response:
        return JSONResponse({"data": [{"id": self.args.served_model_name, "max_model_len": 100}]})

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--additional-config", type=json.loads)
    parser.add_argument("--scheduling-policy")
    parser.add_argument("--fake-token-s", type=float, default=0.001)
    parser.add_argument("--fake-refuse", action="store_true")
    parser.add_argument("--fake-die-after", type=int)
    args, _ = parser.parse_known_args()
    if args.additional_config is not None:
        print(f"INFO agentix: {PARKED}", flush=True)
    asyncio.run(serve(args))


async def serve(args: argparse.Namespace) -> None:
    engine = Engine(args)
    routes = [
        Route("/v1/chat/completions", engine.complete, methods=["POST"]),
        Route("/v1/models", engine.models),
        Route("/health", engine.health),
        Route("/metrics", engine.metrics),
        Route("/version", engine.version),
    ]
    queue = asyncio.create_task(engine.serve_queue())
    config = uvicorn.Config(Starlette(routes=routes), port=args.port, log_level="critical", access_log=False)
    await uvicorn.Server(config).serve()
    queue.cancel()


if __name__ == "__main__":
    run_guarded(main, grace_s=0.5)
