"""What the client SDK costs per call: the same request with and without it, over a transport that answers at once.

    python -m benchmarks.client_overhead

The arms are the same code within a program and, `agentix.uninstrument()` called, without one. They alternate in short rounds,
and the least CPU time of each counts: other work on the machine only adds. What asyncio takes for a task is in both arms, and
told beside them; what the SDK leaves to the garbage collector is in its arm. The target is 50 µs. The session's opening, one
request for each program, is not in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx2

import agentix
from agentix.client import backend

NUM_ROUNDS = 100
NUM_CALLS = 25
TARGET_US = 50.0
URL = "http://127.0.0.1:8080/v1/chat/completions"


def main() -> None:
    """Print the cost of a call by a synchronous and an asynchronous client, in one thread and with forks."""
    backend.TIMEOUT_S = 0.05  # nobody listens
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200))
    with httpx2.Client(transport=transport) as client:
        report("Client.send", [(calls(client, annotated=True), calls(client, annotated=False)) for _ in range(NUM_ROUNDS)])
    in_line_us = report("AsyncClient.send", asyncio.run(rounds(transport, in_line)))
    forked_us = report("AsyncClient.send in a task of its own", asyncio.run(rounds(transport, one_by_one)))
    report("AsyncClient.send, all side by side", asyncio.run(rounds(transport, side_by_side)))
    print(f"a task of its own, without the SDK: {forked_us - in_line_us:+.1f} µs")


def report(name: str, seconds: list[tuple[float, float]]) -> float:
    """One line: the call without, which is returned, and what the SDK adds."""
    plain_us = min(plain_s for _, plain_s in seconds) / NUM_CALLS * 1e6
    added_us = min(annotated_s for annotated_s, _ in seconds) / NUM_CALLS * 1e6 - plain_us
    verdict = "within" if added_us <= TARGET_US else "MISSES"
    print(f"{name}: {plain_us:.1f} µs, with the SDK {added_us:+.1f} µs ({verdict} {TARGET_US:.0f} µs)")
    return plain_us


def calls(client: httpx2.Client, *, annotated: bool) -> float:
    """Seconds for `NUM_CALLS` calls, within a program or without the SDK."""
    if annotated:
        agentix.instrument()
        with agentix.program("benchmark"):
            client.post(URL, json={})
            return timed(client)
    agentix.uninstrument()
    client.post(URL, json={})
    return timed(client)


def timed(client: httpx2.Client) -> float:
    """Seconds for `NUM_CALLS` calls."""
    begun_s = time.thread_time()
    for _ in range(NUM_CALLS):
        client.post(URL, json={})
    return time.thread_time() - begun_s


async def in_line(client: httpx2.AsyncClient) -> None:
    """`NUM_CALLS` calls, one after the other in one task."""
    for _ in range(NUM_CALLS):
        await client.post(URL, json={})


async def one_by_one(client: httpx2.AsyncClient) -> None:
    """Each in a task of its own, one after the other."""
    for _ in range(NUM_CALLS):
        await asyncio.create_task(client.post(URL, json={}))


async def side_by_side(client: httpx2.AsyncClient) -> None:
    """Each in a task of its own, all at once; a last call waits for them."""
    await asyncio.gather(*(client.post(URL, json={}) for _ in range(NUM_CALLS - 1)))
    await client.post(URL, json={})


async def rounds(
    transport: httpx2.MockTransport, play: Callable[[httpx2.AsyncClient], Awaitable[None]]
) -> list[tuple[float, float]]:
    """The same for an asynchronous client and what `play` does with it."""

    async def timed_async() -> float:
        await client.post(URL, json={})
        begun_s = time.thread_time()
        await play(client)
        return time.thread_time() - begun_s

    seconds = []
    async with httpx2.AsyncClient(transport=transport) as client:
        for _ in range(NUM_ROUNDS):
            agentix.instrument()
            async with agentix.program("benchmark"):
                annotated_s = await timed_async()
            agentix.uninstrument()
            seconds.append((annotated_s, await timed_async()))
    return seconds


if __name__ == "__main__":
    main()
