"""Clients that hold connections without using them, or go away in the middle: nobody else notices, nothing is left over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest

from fake_engine import FakeEngine
from gateway_system import CHAT, System, eventually, gateway

BODY = json.dumps({**CHAT, "stream": True}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(BODY)
CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
NUM_SLOW = 20

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(system: System, *pieces: bytes) -> AsyncIterator[Connection]:
    """A client that has sent so much; it leaves without a word at the end."""
    address = urlsplit(system.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    yield reader, writer
    writer.transport.abort()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /v1/chat/comp", id="half a line"),
        pytest.param(HEAD[:-2], id="half a head"),
        pytest.param(HEAD + BODY[:20], id="half a body"),
        pytest.param(CHUNKED + b'5\r\n{"a', id="half a chunk"),
        pytest.param(CHUNKED, id="no chunk"),
    ],
)
async def test_clients_that_stall_take_nothing_from_others(sent: bytes) -> None:
    async with gateway(FakeEngine()) as system, AsyncExitStack() as stack:
        for _ in range(NUM_SLOW):
            await stack.enter_async_context(connected(system, *(sent[at : at + 7] for at in range(0, len(sent), 7))))
        async with asyncio.timeout(10):
            response = await system.chat({"X-Agentix-Program": "p"})
        assert response.status_code == 200
        assert list(system.table.rows) == ["p"]
        assert not system.table.calls
        await stack.aclose()
        async with asyncio.timeout(10):
            assert (await system.chat()).status_code == 200


async def test_a_client_that_leaves_with_its_body_half_sent_was_no_call() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        async with connected(system, HEAD + BODY[:20]):
            pass
        async with connected(system, CHUNKED + b'5\r\n{"a'):
            pass
        assert (await system.chat({"X-Agentix-Program": "p"})).status_code == 200
        assert list(system.table.rows) == ["p"]
        assert len(engine.requests) == 1


async def test_a_client_that_stops_listening_cancels_its_call() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        async with connected(system, HEAD + BODY):
            await eventually(lambda: engine.num_active == 1)
        await eventually(lambda: engine.num_active == 0)
        await eventually(lambda: not system.table.calls)
        system.table.validate()


async def test_a_client_that_closes_its_side_has_left() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system, connected(system, HEAD + BODY) as (_, writer):
        await eventually(lambda: engine.num_active == 1)
        writer.write_eof()
        await eventually(lambda: engine.num_active == 0)
        await eventually(lambda: not system.table.calls)


async def test_what_is_no_http_is_refused() -> None:
    async with gateway(FakeEngine()) as system:
        for sent in (
            b"\0\1\2\3\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            CHUNKED + b"zz\r\n",
            HEAD.replace(b"length: ", b"length: -"),
        ):
            async with connected(system, sent) as (reader, _), asyncio.timeout(10):
                answer = await reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
        assert (await system.chat()).status_code == 200
        assert not system.table.calls


async def test_requests_sent_ahead_are_answered_in_turn() -> None:
    body = json.dumps(CHAT).encode()
    request = HEAD.replace(b"%d" % len(BODY), b"%d" % len(body)) + body
    async with gateway(FakeEngine()) as system, connected(system, request * 3) as (reader, _), asyncio.timeout(10):
        read = b""
        while read.count(b"HTTP/1.1 200") < 3:
            piece = await reader.read(65536)
            assert piece
            read += piece
        assert not system.table.calls
