"""A virtual clock and an OpenAI-compatible server that lives in the test's own event loop."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx2


class VirtualClock:
    """Time jumps to the next sleeper as soon as nothing else can run. Does not start at 0, as no real clock does."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sequence = count()
        self._driver: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._now

    async def sleep(self, duration_s: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + duration_s, next(self._sequence), woken))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())
        await woken

    async def _drive(self) -> None:
        while self._sleepers:
            for _ in range(200):  # let everything that can run, run
                await asyncio.sleep(0)
            when, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._now = when
                woken.set_result(None)


@dataclass
class FakeOpenAI:
    """Streams one word per second. `faults[call id]` decides what goes wrong in a call."""

    clock: VirtualClock
    max_model_len: int | None = None
    models: list[str] = field(default_factory=lambda: ["tiny"])
    faults: dict[str, Callable[[], httpx2.Response]] = field(default_factory=dict)
    end_status: int = 200
    sends_usage: bool = True
    requests: list[tuple[float, httpx2.Request]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    @property
    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.handle)

    @property
    def starts(self) -> list[tuple[str, float]]:
        """(call id, seconds) of every chat request, in order."""
        return [(request.headers["x-agentix-call"], at_s - 1000) for at_s, request in self.requests]

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"data": [{"id": m, "max_model_len": self.max_model_len} for m in self.models]})
        if request.method == "DELETE":
            self.ended.append(request.url.path.removeprefix("/v1/programs/"))
            return httpx2.Response(self.end_status)
        self.requests.append((self.clock.now(), request))
        fault = self.faults.get(request.headers["x-agentix-call"])
        return fault() if fault else httpx2.Response(200, content=self.words(json.loads(request.content)["max_tokens"]))

    async def words(self, num_words: int, *, broken: bool = False) -> AsyncIterator[bytes]:
        for index in range(num_words):
            await self.clock.sleep(1.0)
            last = index == num_words - 1 and not broken
            yield event({"choices": [{"delta": {"content": "w\u2028"}, "finish_reason": "length" if last else None}]})
        if not broken:
            usage = {"prompt_tokens": 9, "completion_tokens": num_words, "prompt_tokens_details": {"cached_tokens": 4}}
            yield event({"choices": [], "usage": usage if self.sends_usage else None})
            yield b"data: [DONE]\n\n"


def event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
