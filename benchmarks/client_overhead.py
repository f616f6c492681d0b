"""What the client SDK costs per call: the same request with and without it, over a transport that answers at once.

    python -m benchmarks.client_overhead

The two alternate in short rounds, and the least of each counts: other work on the machine only adds. The target is 50 µs. The
session's opening, one request for each program, is not in it.
"""

from __future__ import annotations

import asyncio
import time

import httpx2

import agentix
from agentix.client import backend

NUM_ROUNDS = 100
NUM_CALLS = 20
TARGET_US = 50.0
URL = "http://127.0.0.1:8080/v1/chat/completions"


def main() -> None:
    """Print the cost of a call by a synchronous and an asynchronous client, in one thread and with forks."""
    backend.TIMEOUT_S = 0.05  # nobody listens
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200))
    agentix.instrument()
    with httpx2.Client(transport=transport) as client:
        report("Client.send", [(calls(client, annotated=True), calls(client, annotated=False)) for _ in range(NUM_ROUNDS)])
    report("AsyncClient.send", asyncio.run(rounds(transport, forked=False)))
    report("AsyncClient.send in a task of its own", asyncio.run(rounds(transport, forked=True)))


def report(name: str, seconds: list[tuple[float, float]]) -> None:
    """One line: the call without, and what the SDK adds."""
    annotated_us, plain_us = (min(round_s) / NUM_CALLS * 1e6 for round_s in zip(*seconds, strict=True))
    added_us = annotated_us - plain_us
    verdict = "within" if added_us <= TARGET_US else "MISSES"
    print(f"{name}: {plain_us:.1f} µs, with the SDK {added_us:+.1f} µs ({verdict} {TARGET_US:.0f} µs)")


def calls(client: httpx2.Client, *, annotated: bool) -> float:
    """Seconds for `NUM_CALLS` calls, within a program or outside one."""
    if annotated:
        with agentix.program("benchmark"):
            client.post(URL, json={})
            return timed(client)
    return timed(client)


def timed(client: httpx2.Client) -> float:
    """Seconds for `NUM_CALLS` calls."""
    begun_s = time.thread_time()
    for _ in range(NUM_CALLS):
        client.post(URL, json={})
    return time.thread_time() - begun_s


async def rounds(transport: httpx2.MockTransport, *, forked: bool) -> list[tuple[float, float]]:
    """The same for an asynchronous client; `forked`: each call in a task of its own."""

    async def timed_async() -> float:
        begun_s = time.thread_time()
        for _ in range(NUM_CALLS):
            call = client.post(URL, json={})
            await (asyncio.create_task(call) if forked else call)
        return time.thread_time() - begun_s

    seconds = []
    async with httpx2.AsyncClient(transport=transport) as client:
        for _ in range(NUM_ROUNDS):
            async with agentix.program("benchmark"):
                await client.post(URL, json={})
                annotated_s = await timed_async()
            seconds.append((annotated_s, await timed_async()))
    return seconds


if __name__ == "__main__":
    main()
