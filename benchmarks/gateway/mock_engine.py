"""A mock engine: speaks OpenAI's chat API after set delays, and computes nothing. It is no measure of any real engine.

    python -m benchmarks.gateway.mock_engine

Prints one JSON line with its port, and ends when its standard input does. A call's `seed` says how fast it is answered (DELAYS;
a field that every gateway passes on), `max_tokens` how many chunks a stream has. Each chunk is written by itself, as an engine
does that makes a token in each step.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import httptools
import uvloop


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds until an answer or its first chunk, and between two chunks; 0: as fast as the reader takes them."""

    first_s: float = 0.0
    between_s: float = 0.0


MODEL = "mock"
SHORT, BURST, SLOW = 0, 1, 2
DELAYS = {SHORT: Delays(first_s=0.005), BURST: Delays(), SLOW: Delays(between_s=1.0)}

_LIST = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "mock"}]}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_STREAM_END = b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client's connection: a request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._writable = asyncio.Event()
        self._writable.set()
        self._answering: asyncio.Task[None] | None = None
        self._url = self._body = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: stop, as an engine does."""
        if self._answering is not None:
            self._answering.cancel()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        """A piece of the request's path."""
        self._url += url

    def on_body(self, body: bytes) -> None:
        """A piece of the request's body."""
        self._body += body

    def on_message_complete(self) -> None:
        """The request is there: answer it."""
        path = self._url.decode("ascii", "replace").split("?")[0]
        if path == "/v1/chat/completions":
            self._answering = asyncio.create_task(self._chat(json.loads(self._body)))
        else:
            self._whole({"/v1/models": _LIST, "/health": {}}.get(path))

    def _whole(self, answer: dict[str, Any] | None) -> None:
        body = json.dumps({"error": {"message": "not here"}} if answer is None else answer).encode()
        status = b"404 Not Found" if answer is None else b"200 OK"
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)

    async def _chat(self, body: dict[str, Any]) -> None:
        delays, num_chunks = DELAYS[body["seed"]], int(body["max_tokens"])
        await asyncio.sleep(delays.first_s)
        usage = {"prompt_tokens": 1000, "completion_tokens": num_chunks, "total_tokens": 1000 + num_chunks}
        if not body.get("stream"):
            message = {"role": "assistant", "content": " word" * num_chunks}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
            self._whole({**_answer("chat.completion"), "choices": [choice], "usage": usage})
            return
        chunk = _event({"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None})
        self._transport.write(_STREAM_HEAD)
        for index in range(num_chunks):
            if index:
                await asyncio.sleep(delays.between_s)
            await self._writable.wait()
            self._transport.write(chunk)
        last = _event({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
        if (body.get("stream_options") or {}).get("include_usage"):
            last += _chunk({**_answer("chat.completion.chunk"), "choices": [], "usage": usage})
        self._transport.write(last + _framed(b"data: [DONE]\n\n") + _STREAM_END)


def _answer(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-mock", "object": kind, "created": 0, "model": MODEL}


def _event(choice: dict[str, Any]) -> bytes:
    return _chunk({**_answer("chat.completion.chunk"), "choices": [choice]})


def _chunk(said: dict[str, Any]) -> bytes:
    return _framed(b"data: " + json.dumps(said, separators=(",", ":")).encode() + b"\n\n")


def _framed(data: bytes) -> bytes:
    """As a piece of a body whose length nobody knows yet (RFC 9112, section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve() -> None:
    """Listen on a free loopback port until standard input ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    loop.add_reader(sys.stdin.fileno(), over.set)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await over.wait()


if __name__ == "__main__":
    uvloop.run(serve())
