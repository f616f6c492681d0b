"""An engine that follows a script: it calls tools, one after the other, and then speaks. For agents' loops, in all three APIs.

Every chat call reports `fake_engine.METRICS`: two seconds of service, a quarter of a second of waiting.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fake_engine import METRICS, USAGE, sse

MODEL = "scripted"


@dataclass(frozen=True)
class ToolCall:
    """What the model wants: `id` is new in every turn, as real engines make them."""

    id: str
    name: str
    arguments: str


@dataclass
class ScriptedEngine:
    """A call that offers tools gets the turn of the script that its conversation has come to, by the ids of the tool calls
    in it. After the script's end, and without tools, it gets what `say` makes of its last message.

    script  turns, each a list of (tool, arguments) that are called at once
    """

    script: tuple[list[tuple[str, dict[str, Any]]], ...] = ()
    say: Callable[[str], str] = lambda _: "done"
    bodies: list[Any] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/responses", self.respond, methods=["POST"]),
                Route("/v1/messages", self.message, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/health", self.health),
            ]
        )

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("")

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 100_000}]})

    def turn(self, body: Any, items: list[Any]) -> tuple[str, list[ToolCall]]:
        """What is said to the items of a conversation, or which tools are called."""
        self.bodies.append(body)
        said = json.dumps(items)
        number = next(n for n in itertools.count() if f'"call_{n}_0"' not in said)
        if body.get("tools") and number < len(self.script):
            calls = [ToolCall(f"call_{number}_{n}", t, json.dumps(a)) for n, (t, a) in enumerate(self.script[number])]
            return "", calls
        return self.say(text_of(items[-1])), []

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        text, calls = self.turn(body, body["messages"])
        tools = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
        message: dict[str, Any] = {"role": "assistant", "content": text or None} | ({"tool_calls": tools} if tools else {})
        head = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
        reason = "tool_calls" if tools else "stop"
        if body.get("stream"):
            chunks = chat_chunks({**head, "object": "chat.completion.chunk"}, message, reason)
            return StreamingResponse(chunks, media_type="text/event-stream")
        choices = [{"index": 0, "finish_reason": reason, "message": message}]
        return JSONResponse({**head, "object": "chat.completion", "choices": choices, "usage": USAGE, "metrics": METRICS})

    async def respond(self, request: Request) -> Response:
        body = await request.json()
        items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        text, calls = self.turn(body, items)
        said = {"type": "output_text", "text": text, "annotations": []}
        output: list[Any] = [
            {"type": "function_call", "id": f"fc_{c.id}", "call_id": c.id, "status": "completed"}
            | {"name": c.name, "arguments": c.arguments}
            for c in calls
        ] or [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}]
        usage = {
            "input_tokens": 7, "output_tokens": 3, "total_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        head = {"id": f"resp_{len(self.bodies)}", "object": "response", "created_at": 1, "status": "completed", "model": MODEL}
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return JSONResponse({**head, **more, "output": output, "usage": usage})

    async def message(self, request: Request) -> Response:
        body = await request.json()
        text, calls = self.turn(body, body["messages"])
        content: list[Any] = [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)} for c in calls
        ] or [{"type": "text", "text": text}]
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
        usage = {"input_tokens": 7, "output_tokens": 3}
        reason = "tool_use" if calls else "end_turn"
        return JSONResponse({**head, "content": content, "stop_reason": reason, "usage": usage})


async def chat_chunks(head: dict[str, Any], message: dict[str, Any], reason: str) -> AsyncIterator[bytes]:
    """A message in one piece, its end, the usage with the metrics."""
    tools = [{"index": n, **call} for n, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, "tool_calls": tools} if tools else message
    yield sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield sse({**head, "choices": [], "usage": USAGE, "metrics": METRICS})
    yield b"data: [DONE]\n\n"


def text_of(item: Any) -> str:
    """The words of one item, in any of the APIs."""
    content = item.get("content", item.get("output", ""))
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or ())
