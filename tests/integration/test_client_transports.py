"""Whatever library sends a program's calls, the gateway sees how they depend on one another; none is imported for that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import pytest
import requests

import agentix
from scripted_engine import MODEL, ScriptedEngine
from seen_program import seen_program

CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
MESSAGES: Any = CHAT["messages"]
ONE_THEN_TWO_THEN_ONE = [(0, 0), (1, 1), (1, 1), (2, 2)]


async def fork_and_join(call: Callable[[], Awaitable[Any]]) -> None:
    """One call, two beside one another, one that waits for both."""
    async with agentix.program("diamond"):
        await call()
        await asyncio.gather(call(), call())
        await call()


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_httpx(library: Any) -> None:
    async with seen_program(ScriptedEngine()) as seen, library.AsyncClient(trust_env=False) as client:

        async def call() -> None:
            assert (await client.post(f"{seen.url}/v1/chat/completions", json=CHAT)).status_code == 200

        await fork_and_join(call)
        await seen.ended()
    assert seen.shape == ONE_THEN_TWO_THEN_ONE
    assert seen.total == ("diamond", 8.0, 6.0)


async def test_aiohttp() -> None:
    async with seen_program(ScriptedEngine()) as seen, aiohttp.ClientSession(seen.url, headers={"X-Mine": "kept"}) as session:

        async def call() -> None:
            async with session.post("/v1/chat/completions", json=CHAT, headers=[("X-More", "1"), ("X-More", "2")]) as response:
                assert response.status == 200
                assert response.request_info.headers.getall("x-more") == ["1", "2"]
                assert response.request_info.headers["x-mine"] == "kept"

        await fork_and_join(call)
        await seen.ended()
    assert seen.shape == ONE_THEN_TWO_THEN_ONE
    assert seen.total == ("diamond", 8.0, 6.0)


async def test_aiohttp_with_a_program_of_its_own_is_left_alone() -> None:
    mine = {"X-Agentix-Program": "mine"}
    async with seen_program(ScriptedEngine()) as seen, agentix.program("p"), aiohttp.ClientSession(headers=mine) as session:
        response = await session.post(f"{seen.url}/v1/chat/completions", json=CHAT)
        assert response.status == 200
    assert [event.program_id for event in seen.arrived] == ["mine"]


async def test_requests() -> None:
    def chain(url: str) -> None:
        with agentix.program("chain"), requests.Session() as session:
            session.trust_env = False
            for _ in range(3):
                assert session.post(f"{url}/v1/chat/completions", json=CHAT, timeout=5).status_code == 200

    async with seen_program(ScriptedEngine()) as seen:
        await asyncio.to_thread(chain, seen.url)
        await seen.ended()
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
    assert seen.total == ("chain", 6.0, 6.0)


async def test_openai_chat_and_responses() -> None:
    async with (
        seen_program(ScriptedEngine()) as seen,
        openai.AsyncOpenAI(base_url=seen.base_url, api_key="k", max_retries=0) as client,
    ):

        async def call() -> None:
            await client.chat.completions.create(model=MODEL, messages=MESSAGES)
            await client.responses.create(model=MODEL, input="hi")

        await fork_and_join(call)
    assert seen.shape == [(0, 0), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1), (4, 2), (5, 1)]


async def test_openai_streams() -> None:
    async with (
        seen_program(ScriptedEngine(say=str.upper)) as seen,
        openai.AsyncOpenAI(base_url=seen.base_url, api_key="k", max_retries=0) as client,
    ):

        async def call() -> None:
            stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
            assert "".join([c.choices[0].delta.content or "" async for c in stream if c.choices]) == "HI"

        await fork_and_join(call)
    assert seen.shape == ONE_THEN_TWO_THEN_ONE


async def test_anthropic() -> None:
    async with (
        seen_program(ScriptedEngine()) as seen,
        anthropic.AsyncAnthropic(base_url=seen.url, api_key="k", max_retries=0) as client,
    ):

        async def call() -> None:
            await client.messages.create(model=MODEL, max_tokens=9, messages=MESSAGES)

        await fork_and_join(call)
    assert seen.shape == ONE_THEN_TWO_THEN_ONE


@pytest.mark.parametrize(
    ("module", "owner", "method"),
    [
        ("httpx", "AsyncClient", "send"),
        ("httpx2", "Client", "send"),
        ("requests", "Session", "send"),
        ("aiohttp", "ClientSession", "_request"),
    ],
)
def test_a_library_is_wrapped_when_the_host_imports_it_and_not_imported_for_it(module: str, owner: str, method: str) -> None:
    code = f"""
import sys, agentix
with agentix.program("p"):
    assert not {{"httpx", "httpx2", "requests", "aiohttp", "uvloop"}} & set(sys.modules)
    import {module}
    wrapped = vars({module}.{owner})["{method}"]
    assert wrapped.__wrapped__.__qualname__ == "{owner}.{method}"
agentix.uninstrument()
assert vars({module}.{owner})["{method}"] is wrapped.__wrapped__
assert not any(type(f).__module__.startswith("agentix") for f in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_library_that_fails_to_import_fails_as_it_would_without_us() -> None:
    code = """
import sys, agentix
agentix.instrument()
sys.path.clear()
try:
    import requests
except ModuleNotFoundError as error:
    assert error.name == "requests", error.name
else:
    raise AssertionError("it was found")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
