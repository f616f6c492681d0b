"""Requests straight into an ASGI application, as no HTTP client would send them, and what must hold after each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

RawHeaders = Sequence[tuple[bytes, bytes]]

DEADLINE_S = 10.0  # far beyond what any request takes here: one that takes longer hangs
_ENGINE_HEADER = b"x-agentix-engine"


@dataclass
class Answer:
    """What the application sent. `complete`: to its end."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False

    @property
    def from_engine(self) -> bool:
        """Whether an engine gave it."""
        return any(name == _ENGINE_HEADER for name, _ in self.headers)


async def ask(
    app: Starlette,
    method: str,
    path: str,
    pieces: Sequence[bytes] = (b"",),
    *,
    headers: RawHeaders = (),
    query: bytes = b"",
    leaves: bool = False,
    patience_s: float = DEADLINE_S,
    at_end: Callable[[], Awaitable[None]] | None = None,
) -> Answer:
    """One request whose body comes in pieces. `leaves`: its client goes away instead of sending the last of them.

    A client that stays goes away after `patience_s`. `at_end` is awaited as the last of the answer is sent. Raises what the
    application raises; a test fails if it hangs.
    """
    answer, over = Answer(), asyncio.Event()
    rest = list(pieces[:-1] if leaves else pieces)

    async def receive() -> Message:
        if rest:
            piece = rest.pop(0)
            return {"type": "http.request", "body": piece, "more_body": leaves or bool(rest)}
        if not leaves:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), patience_s)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message["headers"])
            return
        answer.body += message.get("body", b"")
        if not message.get("more_body", False):
            answer.complete = True
            over.set()
            if at_end is not None:
                await at_end()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    try:
        async with asyncio.timeout(DEADLINE_S + patience_s):
            await app(scope, receive, send)
    except TimeoutError:
        pytest.fail(f"{method} {path} hangs")
    return answer


def check(app: Starlette, path: str, answer: Answer, *, allowed: Sequence[int] = ()) -> None:
    """The gateway has not failed, has told of what it refused in the shape of the client's API, and has nothing left over.

    `allowed`: statuses of 500 and more that may be the gateway's answer.
    """
    if not answer.from_engine:
        assert answer.status < 500 or answer.status in allowed, (answer.status, answer.body[:300])
        if answer.status >= 400:
            check_error(path, answer.body)
    app.state.table.validate()
    assert not app.state.table.calls


def check_error(path: str, body: bytes) -> None:
    """An error in the shape that the API at `path` has."""
    said = json.loads(body)
    assert isinstance(said["error"]["message"], str)
    assert said["error"]["message"]
    assert isinstance(said["error"]["type"], str)
    if path.startswith("/v1/messages"):
        assert said["type"] == "error"
    else:
        assert {"param", "code"} <= said["error"].keys()


ANSWER = {
    "id": "answer-1",
    "choices": [{"index": 0, "text": "hi", "message": {"role": "assistant", "content": "hi"}}],
    "content": [{"type": "text", "text": "hi"}],
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


class TolerantEngine:
    """An engine that answers whatever it is asked: a stream where one is asked for, else one answer for all APIs."""

    @property
    def app(self) -> Any:
        """The ASGI application."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        said: Any = None
        with suppress(ValueError):
            said = json.loads(data)
        body, kind = json.dumps(ANSWER).encode(), b"application/json"
        if scope["path"] == "/v1/models":
            body = json.dumps({"data": [{"id": "fake"}]}).encode()
        elif isinstance(said, dict) and said.get("stream") is True:
            body, kind = b"data: %b\n\ndata: [DONE]\n\n" % body, b"text/event-stream"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body})
