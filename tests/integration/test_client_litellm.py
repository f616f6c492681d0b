"""LiteLLM as it is, within a program: tools, calls side by side, streams, through each of the ways in which it sends."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import agentix
from local_litellm import litellm
from scripted_engine import MODEL, ScriptedEngine
from seen_program import Seen, seen_program

ADD_TWICE = ([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], [("add", {"a": 3, "b": 7})])
# It leaves closing its clients to the collector, and warns of what is its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
async def collected() -> AsyncIterator[None]:
    """It keeps one aiohttp session, of the event loop in which it was first used; every test has a loop of its own."""
    yield
    handler: Any = litellm.main.base_llm_aiohttp_handler
    if handler.client_session is not None:
        await handler.client_session.close()
        handler.client_session = None
    gc.collect()


PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}]
# The OpenAI SDK; LiteLLM's own client over httpx; the same over aiohttp.
PROVIDERS = ["openai", "hosted_vllm", "aiohttp_openai"]


def options(seen: Seen, provider: str) -> dict[str, Any]:
    return {"model": f"{provider}/{MODEL}", "api_base": seen.base_url, "api_key": "k", "max_retries": 0}


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_litellm_react(provider: str) -> None:
    async with seen_program(ScriptedEngine(script=ADD_TWICE, say=lambda text: f"it is {text}")) as seen:
        messages: list[Any] = said("add them up")
        async with agentix.program("react"):
            while True:
                answer: Any = await litellm.acompletion(messages=messages, tools=TOOLS, **options(seen, provider))
                message = answer.choices[0].message
                if not message.tool_calls:
                    break
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls:
                    total = str(sum(json.loads(call.function.arguments).values()))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": total})
        await seen.ended()
    assert message.content == "it is 10"
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
    assert seen.total == ("react", 6.0, 6.0)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_litellm_fan_out(provider: str) -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:

        async def ask(text: str) -> str:
            answer: Any = await litellm.acompletion(messages=said(text), **options(seen, provider))
            return str(answer.choices[0].message.content)

        async def write(text: str) -> str:
            return await ask(f"polish {await ask(f'draft {text}')}")

        async with agentix.program("map-reduce"):
            parts = await asyncio.gather(*(write(t) for t in "abc"))
            assert await ask(" ".join(parts)) == "POLISH DRAFT A POLISH DRAFT B POLISH DRAFT C"
        await seen.ended()
    assert seen.shape == [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (2, 3)]
    assert seen.total == ("map-reduce", 14.0, 6.0)


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
async def test_litellm_sync(provider: str) -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:

        @agentix.program("chain")
        def run() -> list[str]:
            answers: list[Any] = [litellm.completion(messages=said(t), **options(seen, provider)) for t in "ab"]
            return [a.choices[0].message.content for a in answers]

        assert await asyncio.to_thread(run) == ["A", "B"]
        await seen.ended()
    assert seen.shape == [(0, 0), (1, 1)]
    assert seen.total == ("chain", 4.0, 4.0)


async def test_litellm_streams() -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen, agentix.program("chat"):
        for _ in range(2):
            stream: Any = await litellm.acompletion(messages=said("hi"), stream=True, **options(seen, "openai"))
            assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "HI"
    assert seen.shape == [(0, 0), (1, 1)]
