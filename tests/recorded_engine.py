"""An engine that replays what a real one said: vLLM 0.32.0 with a model of random weights, recorded request by request.

The recording (`recorded/vllm-0.32.0.json`) holds answers and errors of every API, streamed and not. Embeddings, which
that model does not have, are made up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded" / "vllm-0.32.0.json").read_text())
RESPONSE_ID = json.loads("".join(RECORDED["responses"]["body"]))["id"]
EMBEDDINGS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
    "model": "tiny",
    "usage": {"prompt_tokens": 6, "total_tokens": 6},
}


def recorded(name: str) -> bytes:
    """The body that was recorded under the name."""
    return "".join(RECORDED[name]["body"]).encode()


@dataclass
class RecordedEngine:
    """Serves `models`; refuses what vLLM refuses. `api_key`: wants it, as with `--api-key`. `breaks_after`: dies in a stream
    after so many events.
    """

    models: tuple[str, ...] = ("tiny",)
    api_key: str | None = None
    breaks_after: int | None = None
    healthy: bool = True
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    num_model_lists: int = 0

    @property
    def app(self) -> Starlette:
        """The ASGI application."""
        names = {
            "/v1/chat/completions": "chat",
            "/v1/completions": "completions",
            "/v1/responses": "responses",
            "/v1/messages": "messages",
            "/v1/messages/count_tokens": "count_tokens",
            "/tokenize": "tokenize",
            "/detokenize": "detokenize",
            "/v1/embeddings": "embeddings",
        }

        def route(path: str, name: str) -> Route:
            async def serve(request: Request) -> Response:
                return await self.serve(name, request)

            return Route(path, serve, methods=["POST"])

        return Starlette(
            routes=[
                *(route(path, name) for path, name in names.items()),
                Route("/v1/responses/{response_id}", self.stored),
                Route("/v1/responses/{response_id}/cancel", self.cancel, methods=["POST"]),
                Route("/v1/models", self.list),
                Route("/health", self.health),
            ]
        )

    @property
    def last_headers(self) -> dict[str, str]:
        """Headers of the latest call."""
        return self.requests[-1][1]

    @property
    def last_body(self) -> Any:
        """Body of the latest call."""
        return self.requests[-1][2]

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("", 200 if self.healthy else 503)

    async def list(self, request: Request) -> Response:
        self.num_model_lists += 1
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        models = [{"id": m, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 8192} for m in self.models]
        return JSONResponse({"object": "list", "data": models})

    async def serve(self, name: str, request: Request) -> Response:
        body = await request.json()
        self.requests.append((request.scope["path"], dict(request.headers), body))
        if body.get("model", self.models[0]) not in self.models:
            return replay("messages_bad_model" if name == "messages" else "chat_bad_model")
        if any(isinstance(v, dict | None) for v in body.get("vllm_xargs", {}).values()):
            return replay("chat_nested_xargs")
        if name == "embeddings":
            return JSONResponse(EMBEDDINGS)
        if body.get("tool_choice"):
            name += "_tool"
        if not body.get("stream"):
            return replay(name)
        name += "_stream" + ("_usage" if body.get("stream_options", {}).get("include_usage") else "")
        return StreamingResponse(self.events(name), media_type="text/event-stream")

    async def events(self, name: str) -> AsyncIterator[bytes]:
        for number, event in enumerate(recorded(name).split(b"\n\n")[:-1]):
            if number == self.breaks_after:
                raise ConnectionError("the engine dies here")
            await asyncio.sleep(0)
            yield event + b"\n\n"

    async def stored(self, request: Request) -> Response:
        self.requests.append((request.scope["path"], dict(request.headers), None))
        return replay("responses" if await self.has(request) else "responses_missing")

    async def cancel(self, request: Request) -> Response:
        self.requests.append((request.scope["path"], dict(request.headers), None))
        return replay("responses_cancel" if await self.has(request) else "responses_missing")

    async def has(self, request: Request) -> bool:
        """Whether the response was computed here."""
        made_here = any(path == "/v1/responses" for path, _, _ in self.requests)
        return made_here and request.path_params["response_id"] == RESPONSE_ID


def replay(name: str) -> Response:
    """The recorded answer."""
    return Response(recorded(name), RECORDED[name]["status"], media_type=RECORDED[name]["type"])
