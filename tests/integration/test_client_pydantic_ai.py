"""pydantic-ai as it is, within a program: an agent with tools, agents side by side, an agent that asks another one, streams."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import agentix
from scripted_engine import MODEL, ScriptedEngine
from seen_program import Seen, seen_program

ADD_TWICE = ([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], [("add", {"a": 3, "b": 7})])
# Who uses these clients leaves closing them to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def agent(seen: Seen) -> Any:
    return Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=await seen.openai_client())))


@pytest.mark.parametrize("is_async", [True, False])
async def test_pydantic_ai_react(is_async: bool) -> None:
    """Tools that are plain functions run in threads of a pool, beside one another."""
    engine = ScriptedEngine(script=ADD_TWICE, say=lambda text: f"it is {text}")
    async with seen_program(engine) as seen:
        adder = await agent(seen)
        adder.tool_plain(add)

        @agentix.program("react")
        def run() -> str:
            return str(adder.run_sync("add them up").output)

        @agentix.program("react")
        async def arun() -> str:
            return str((await adder.run("add them up")).output)

        assert (await arun() if is_async else await asyncio.to_thread(run)) == "it is 10"
        await seen.ended()
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
    assert seen.total == ("react", 6.0, 6.0)


async def test_pydantic_ai_fan_out() -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        writer = await agent(seen)

        async def write(text: str) -> str:
            draft = (await writer.run(f"draft {text}")).output
            return str((await writer.run(f"polish {draft}")).output)

        async with agentix.program("map-reduce"):
            parts = await asyncio.gather(*(write(t) for t in "abc"))
            assert (await writer.run(" ".join(parts))).output == "POLISH DRAFT A POLISH DRAFT B POLISH DRAFT C"
        await seen.ended()
    assert seen.shape == [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (2, 3)]
    assert seen.total == ("map-reduce", 14.0, 6.0)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_pydantic_ai_agents_as_tools(in_thread: bool) -> None:
    """One turn asks another agent twice at once; what follows waits for both answers. Also where tools run in threads."""
    script = ([("ask", {"text": "left"}), ("ask", {"text": "right"})],)
    async with seen_program(ScriptedEngine(script=script, say=str.upper)) as seen:
        boss, other = await agent(seen), await agent(seen)

        async def ask(_: RunContext[None], text: str) -> str:
            """Asks somebody."""
            return str((await other.run(text)).output)

        def ask_in_thread(_: RunContext[None], text: str) -> str:
            """Asks the model itself."""
            with openai.OpenAI(base_url=seen.base_url, api_key="k", max_retries=0) as client:
                answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
            return str(answer.choices[0].message.content)

        tool: Any = ask_in_thread if in_thread else ask
        boss.tool(name="ask")(tool)
        async with agentix.program("delegate"):
            answer = await boss.run("ask them")
        await seen.ended()
    assert answer.output == "RIGHT"
    assert seen.shape == [(0, 0), (1, 1), (1, 1), (2, 2)]
    assert seen.total == ("delegate", 8.0, 6.0)


async def test_pydantic_ai_streams() -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        writer = await agent(seen)
        async with agentix.program("chat"):
            for _ in range(2):
                async with writer.run_stream("hi") as stream:
                    assert await stream.get_output() == "HI"
    assert seen.shape == [(0, 0), (1, 1)]
