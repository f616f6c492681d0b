"""LangChain and LangGraph as they are, within a program: agents with tools, map-reduce by `Send`, batches, streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

import agentix
from langgraph_programs import chat_model, map_reduce
from scripted_engine import MODEL, ScriptedEngine
from seen_program import Seen, seen_program

ADD_TWICE = ([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], [("add", {"a": 3, "b": 7})])


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


def model(seen: Seen) -> ChatOpenAI:
    return chat_model(seen.base_url, MODEL)


# Plan, three drafts that wait for it, each draft's own polish, and one call that waits for all three.
MAP_REDUCE = [(0, 0), (1, 1), (1, 1), (1, 1), (2, 1), (2, 1), (2, 1), (3, 3)]


@pytest.mark.parametrize("is_async", [True, False])
async def test_langgraph_send_fan_out(is_async: bool) -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        graph = map_reduce(model(seen))

        @agentix.program("map-reduce")
        def run() -> Any:
            return graph.invoke({"facts": []})

        @agentix.program("map-reduce")
        async def arun() -> Any:
            return await graph.ainvoke({"facts": []})

        answer = await arun() if is_async else await asyncio.to_thread(run)
        await seen.ended()
    assert answer["facts"][-1] == "POLISH DRAFT A POLISH DRAFT B POLISH DRAFT C"
    assert seen.shape == MAP_REDUCE
    assert seen.total == ("map-reduce", 16.0, 8.0)


@pytest.mark.parametrize("is_async", [True, False])
async def test_langgraph_react_agent(is_async: bool) -> None:
    engine = ScriptedEngine(script=ADD_TWICE, say=lambda text: f"it is {text}")
    question: Any = {"messages": [{"role": "user", "content": "add them up"}]}
    async with seen_program(engine) as seen:
        agent = create_agent(model(seen), [tool(add)])

        @agentix.program("react")
        def run() -> Any:
            return agent.invoke(question)

        @agentix.program("react")
        async def arun() -> Any:
            return await agent.ainvoke(question)

        answer = await arun() if is_async else await asyncio.to_thread(run)
        await seen.ended()
    assert answer["messages"][-1].text == "it is 10"
    assert [m["content"] for m in engine.bodies[1]["messages"] if m["role"] == "tool"] == ["3", "7"]
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
    assert seen.total == ("react", 6.0, 6.0)


async def test_langgraph_streams() -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        graph = map_reduce(model(seen))
        async with agentix.program("map-reduce"):
            pieces = [chunk.text async for chunk, _ in graph.astream({"facts": []}, stream_mode="messages")]
    assert "POLISH DRAFT A POLISH DRAFT B POLISH DRAFT C" in pieces
    assert seen.shape == MAP_REDUCE


@pytest.mark.parametrize("is_async", [True, False])
async def test_langchain_chain_and_batch(is_async: bool) -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        chain = ChatPromptTemplate.from_template("say {word}") | model(seen)
        words: Any = [{"word": w} for w in ("one", "two")]

        @agentix.program("batch")
        def run() -> list[str]:
            return [chain.invoke(words[0]).text, *(m.text for m in chain.batch(words)), chain.invoke(words[1]).text]

        @agentix.program("batch")
        async def arun() -> list[str]:
            first = (await chain.ainvoke(words[0])).text
            return [first, *(m.text for m in await chain.abatch(words)), (await chain.ainvoke(words[1])).text]

        assert (await arun() if is_async else await asyncio.to_thread(run)) == ["SAY ONE", "SAY ONE", "SAY TWO", "SAY TWO"]
        await seen.ended()
    assert seen.shape == [(0, 0), (1, 1), (1, 1), (2, 2)]
    assert seen.total == ("batch", 8.0, 6.0)
