"""The load generator, a process of its own: sends calls to one address, and prints what came of them as one JSON line.

    python -m benchmarks.gateway.load '{"kind": "rate", "url": "http://127.0.0.1:8080", …}'

It must cost little, because it shares a core with the mock engine: requests are made before the clock runs, and answers are
only counted. Moments are taken where bytes leave and arrive.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvloop

from benchmarks.gateway.client import Client
from benchmarks.gateway.mock_engine import MODEL, SHORT
from benchmarks.gateway.summary import summarise

_TURN = "Look at what the last tool has said, decide what to do next, and say why in a few words. " * 11  # 1,000 characters
_AT_ONCE = 100  # streams that begin: fewer than any server lets wait for their connection
_OPENING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send.

    rate      calls arrive at random (Poisson), `rate_per_s` in the mean, whether or not earlier ones are answered
    closed    `num_connections` clients, each of which makes its next call as soon as it has its answer
    hold      `num_connections` streams, all open at once for `duration_s`; prints a line when all have begun
    programs  one call for each of `num_programs` programs, by `num_connections` clients

    Calls of the first `warm_s` seconds do not count. `pace`: which of the mock engine's delays; `num_chunks`: length of the
    answers; `stream`: in pieces. What has not ended `patience_s` after its time is given up, and the process fails.
    """

    kind: str
    url: str
    pace: int = SHORT
    duration_s: float = 1.0
    warm_s: float = 0.5
    rate_per_s: float = 200.0
    num_connections: int = 1
    num_programs: int = 200
    num_chunks: int = 8
    stream: bool = False
    seed: int = 1
    patience_s: float = 60.0


def make_request(load: Load, program: int) -> bytes:
    """A call of one of the programs: a prompt of four turns and a thousand tokens or so."""
    turns = [{"role": role, "content": f"{program}: {_TURN}"} for role in ("system", "user", "assistant", "user")]
    options = {"max_tokens": load.num_chunks, "stream": load.stream, "seed": load.pace}
    body = json.dumps({"model": MODEL, "messages": turns, **options}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {urlsplit(load.url).netloc}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer none\r\nx-agentix-program: program-{program}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def make_schedule(load: Load) -> list[tuple[float, int]]:
    """When calls arrive, in seconds from the beginning, and of which program each is: the same for every arm."""
    draw = random.Random(load.seed)  # noqa: S311 - not for secrets
    schedule: list[tuple[float, int]] = []
    due_s = 0.0
    while (due_s := due_s + draw.expovariate(load.rate_per_s)) < load.warm_s + load.duration_s:
        schedule.append((due_s, draw.randrange(load.num_programs)))
    return schedule


async def at_rate(load: Load, client: Client) -> dict[str, Any]:
    """Calls at random moments."""
    calls = [(offset_s, make_request(load, program)) for offset_s, program in make_schedule(load)]
    began_s = time.monotonic()
    lags_s: list[float] = []
    async with asyncio.TaskGroup() as group:
        for offset_s, request in calls:
            await asyncio.sleep(began_s + offset_s - time.monotonic())
            lags_s.append(time.monotonic() - began_s - offset_s)
            group.create_task(client.call(request))
    counted_s = began_s + load.warm_s
    return summarise(client.taken, counted_s, counted_s + load.duration_s, lags_s=lags_s)


async def closed_loop(load: Load, client: Client) -> dict[str, Any]:
    """Each client calls again and again."""
    requests = [make_request(load, program) for program in range(max(load.num_programs, load.num_connections))]
    began_s = time.monotonic()
    counted_s, over_s = began_s + load.warm_s, began_s + load.warm_s + load.duration_s
    num_chunks: list[int] = []

    async def call_on(first: int) -> None:
        program = first
        while time.monotonic() < over_s:
            await client.call(requests[program % len(requests)])
            program += load.num_connections

    async def count() -> None:
        for moment_s in (counted_s, over_s):
            await asyncio.sleep(moment_s - time.monotonic())
            num_chunks.append(client.num_chunks)

    async with asyncio.TaskGroup() as group:
        group.create_task(count())
        for number in range(load.num_connections):
            group.create_task(call_on(number))
    chunks_per_s = (num_chunks[1] - num_chunks[0]) / load.duration_s
    return {**summarise(client.taken, counted_s, over_s), "chunks_per_s": chunks_per_s}


async def hold(load: Load, client: Client) -> dict[str, Any]:
    """Many streams at once, for a while."""
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        streams = []
        with suppress(TimeoutError):
            async with asyncio.timeout(_OPENING_S):
                for number in range(load.num_connections):
                    streams.append(group.create_task(client.call(make_request(load, number))))
                    await client.wait_begun(number - _AT_ONCE)
                await client.wait_begun(load.num_connections)
        print(json.dumps({"num_open": client.num_begun, "opened_in_s": time.monotonic() - began_s}), flush=True)
        await asyncio.sleep(load.duration_s)
        for stream in streams:
            stream.cancel()
    return summarise(client.taken, began_s, time.monotonic())


async def fill(load: Load, client: Client) -> dict[str, Any]:
    """One call for each program."""
    began_s = time.monotonic()
    programs = iter(range(load.num_programs))

    async def call_on() -> None:
        for program in programs:
            await client.call(make_request(load, program))

    async with asyncio.TaskGroup() as group:
        for _ in range(load.num_connections):
            group.create_task(call_on())
    return summarise(client.taken, began_s, time.monotonic())


KINDS: dict[str, Callable[[Load, Client], Coroutine[Any, Any, dict[str, Any]]]] = {
    "rate": at_rate,
    "closed": closed_loop,
    "hold": hold,
    "programs": fill,
}


async def run(load: Load) -> dict[str, Any]:
    """Send it all, and say what came of it."""
    address = urlsplit(load.url)
    client = Client(address.hostname or "", address.port or 80)
    try:
        async with asyncio.timeout(load.warm_s + load.duration_s + load.patience_s):
            return await KINDS[load.kind](load, client)
    finally:
        client.close()


if __name__ == "__main__":
    gc.disable()  # a collection in the middle of a call would be taken for the gateway's
    print(json.dumps(uvloop.run(run(Load(**json.loads(sys.argv[1]))))))
