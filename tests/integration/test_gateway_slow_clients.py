"""Clients that are slow, or say nothing: they cost little, and nobody waits for them."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentix.gateway import EngineTarget, GatewayConfig, body, create_app
from agentix.gateway.connections import MAX_HEAD_BYTES, PatientProtocol, allow_files, most_connections
from agentix.gateway.server import KEPT_S, serving
from fake_engine import FakeEngine, served, sse
from gateway_system import CHAT, System, eventually

MIB = 2**20


@asynccontextmanager
async def gateway(engine: Any) -> AsyncIterator[System]:
    """The gateway under the server that `agentix serve` runs it under."""
    async with served(engine.app) as url:
        app = create_app(GatewayConfig(engines=(EngineTarget(engine_id="e0", url=url),)))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            gateway_url = f"http://127.0.0.1:{port}"
            async with serving(app, listener), httpx2.AsyncClient(base_url=gateway_url, trust_env=False) as client:
                yield System(client, gateway_url, [engine], app)


async def connect(system: System) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", httpx2.URL(system.url).port, limit=1024)


@pytest.mark.parametrize("beginning", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nx-a: "])
async def test_a_client_that_never_comes_to_the_point_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(PatientProtocol, "headers_timeout_s", 0.2)
    async with gateway(FakeEngine()) as system:
        reader, writer = await connect(system)
        writer.write(beginning)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        assert (await system.chat()).status_code == 200


async def test_so_is_one_that_dawdles_over_its_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "headers_timeout_s", 0.3)
    async with gateway(FakeEngine()) as system:
        reader, writer = await connect(system)
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _ in range(3):  # each byte puts off what the server itself would do
            writer.write(b"G")
            await asyncio.sleep(0.05)
        await asyncio.wait_for(reader.read(), 10)
        writer.close()


async def test_a_call_may_take_longer_than_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "headers_timeout_s", 0.5)
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        call = asyncio.create_task(system.chat(stream=True))
        await asyncio.sleep(0.8)
        engine.mode = "ok"
        assert (await call).content.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"])
async def test_a_request_s_headers_have_so_many_bytes_and_no_more(before: bytes) -> None:
    async with gateway(FakeEngine()) as system:
        reader, writer = await connect(system)
        if before:
            writer.write(before)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"}]")  # of the engines that it tells
            await reader.read(100)
        begin, end = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ", b"\r\n\r\n"
        writer.write(begin + b"a" * (MAX_HEAD_BYTES - len(begin) - len(end)) + end)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        reader, writer = await connect(system)
        for _ in range(MAX_HEAD_BYTES // 1024):
            writer.write((begin if _ == 0 else b"") + b"a" * 1024)
            await writer.drain()
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 431")
        assert b"headers_too_large" in await reader.read(1000)
        writer.close()
        big = await system.chat(user="u" * 10 * MAX_HEAD_BYTES)  # bodies are another matter
        assert big.status_code == 200


async def test_one_connection_too_many_takes_the_place_of_the_one_that_has_been_quiet_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        monkeypatch.setattr(PatientProtocol, "max_connections", 4)
        calls = [asyncio.create_task(system.chat()) for _ in range(2)]
        await eventually(lambda: engine.num_active == 2)
        quiet = [await connect(system) for _ in range(2)]
        await asyncio.sleep(0.05)
        newer = await connect(system)
        assert await asyncio.wait_for(quiet[0][0].read(), 10) == b""
        engine.mode = "ok"
        for _, writer in (quiet[1], newer):  # these are still there
            writer.write(b"GET /v1/programs HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for reader, _ in (quiet[1], newer):
            assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")
        assert engine.num_active == 2
        for call in calls:
            call.cancel()
        for _, writer in (*quiet, newer):
            writer.close()


async def test_where_all_are_in_use_one_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        monkeypatch.setattr(PatientProtocol, "max_connections", 1)
        call = asyncio.create_task(system.chat())
        await eventually(lambda: engine.num_active == 1)
        reader, writer = await connect(system)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        assert engine.num_active == 1
        call.cancel()


def test_there_are_as_many_connections_as_files_for_both_of_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert most_connections() == 448
    allow_files()
    assert (limits[-1], most_connections()) == ((4096, 4096), 1984)
    limits.append((1024, resource.RLIM_INFINITY))
    allow_files()
    assert limits[-1] == (65536, resource.RLIM_INFINITY)
    limits.append((16, 16))
    assert most_connections() == 32


def test_an_idle_connection_is_kept_longer_than_clients_keep_theirs() -> None:
    assert KEPT_S > 15  # aiohttp's; httpx and the SDKs on it have 5 s


async def test_a_body_that_does_not_arrive_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_TIMEOUT_S", 0.2)
    engine = FakeEngine()
    async with gateway(engine) as system:
        reader, writer = await connect(system)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 408")
        assert b'"type":"error"' in await reader.read(500)
        writer.close()
        assert not system.table.calls
        assert engine.requests == []


class Flood(FakeEngine):
    """Streams far more than any buffer holds."""

    num_bytes = 0

    async def complete(self, request: Request) -> Response:
        asked = await request.json()
        if asked.get("user") != "slow":
            return await super().complete(request)
        return StreamingResponse(self.flood(), media_type="text/event-stream")

    async def flood(self) -> AsyncIterator[bytes]:
        event = sse({"choices": [{"index": 0, "delta": {"content": "x" * MIB}}]})
        for _ in range(400):
            self.num_bytes += len(event)
            yield event


async def test_a_client_that_does_not_read_holds_up_its_own_call_alone() -> None:
    engine = Flood()
    async with gateway(engine) as system:
        reader, writer = await connect(system)
        content = json.dumps({**CHAT, "stream": True, "user": "slow"}).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content)
        )
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while engine.num_bytes != before:  # until every buffer on the way is full
            before = engine.num_bytes
            await asyncio.sleep(0.3)
        assert before < 64 * MIB
        assert (await asyncio.wait_for(system.chat(), 10)).status_code == 200
        assert engine.num_bytes == before
        writer.transport.abort()
        await eventually(lambda: not system.table.calls)
