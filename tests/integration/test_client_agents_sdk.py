"""The OpenAI Agents SDK as it is, within a program: tools over Responses and Chat, an agent as a tool, agents side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import agents
import pytest

import agentix
from scripted_engine import MODEL, ScriptedEngine
from seen_program import Seen, seen_program

ADD_TWICE = ([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], [("add", {"a": 3, "b": 7})])


@pytest.fixture(autouse=True)
def no_traces_leave_this_machine() -> None:
    agents.set_tracing_disabled(True)


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def model(seen: Seen, kind: Any) -> Any:
    return kind(model=MODEL, openai_client=await seen.openai_client())


@pytest.mark.parametrize("kind", [agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel])
async def test_agents_sdk_react(kind: Any) -> None:
    engine = ScriptedEngine(script=ADD_TWICE, say=lambda text: f"it is {text}")
    async with seen_program(engine) as seen:
        agent = agents.Agent(name="adder", model=await model(seen, kind), tools=[agents.function_tool(add)])
        async with agentix.program("react"):
            answer = await agents.Runner.run(agent, "add them up")
        await seen.ended()
    assert answer.final_output == "it is 10"
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]


async def test_agents_sdk_fan_out() -> None:
    async with seen_program(ScriptedEngine(say=str.upper)) as seen:
        agent = agents.Agent(name="writer", model=await model(seen, agents.OpenAIChatCompletionsModel))

        async def write(text: str) -> str:
            draft = (await agents.Runner.run(agent, f"draft {text}")).final_output
            return str((await agents.Runner.run(agent, f"polish {draft}")).final_output)

        async with agentix.program("map-reduce"):
            parts = await asyncio.gather(*(write(t) for t in "abc"))
            last = await agents.Runner.run(agent, " ".join(parts))
        await seen.ended()
    assert last.final_output == "POLISH DRAFT A POLISH DRAFT B POLISH DRAFT C"
    assert seen.shape == [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (2, 3)]
    assert seen.total == ("map-reduce", 14.0, 6.0)


async def test_agents_sdk_agents_as_tools() -> None:
    """One turn asks two sub-agents at once; what follows waits for both."""
    script = ([("ask_a", {"input": "left"}), ("ask_b", {"input": "right"})],)
    async with seen_program(ScriptedEngine(script=script, say=str.upper)) as seen:
        chat = await model(seen, agents.OpenAIChatCompletionsModel)
        parts = [
            agents.Agent(name=n, model=chat).as_tool(tool_name=f"ask_{n}", tool_description="Asks it.") for n in ("a", "b")
        ]
        boss = agents.Agent(name="boss", model=chat, tools=[*parts])
        async with agentix.program("delegate"):
            answer = await agents.Runner.run(boss, "ask them")
        await seen.ended()
    assert answer.final_output == "RIGHT"
    assert seen.shape == [(0, 0), (1, 1), (1, 1), (2, 2)]
    assert seen.total == ("delegate", 8.0, 6.0)


async def test_agents_sdk_streams() -> None:
    async with seen_program(ScriptedEngine(script=ADD_TWICE, say=str.upper)) as seen:
        chat = await model(seen, agents.OpenAIChatCompletionsModel)
        agent = agents.Agent(name="adder", model=chat, tools=[agents.function_tool(add)])
        async with agentix.program("react"):
            run = agents.Runner.run_streamed(agent, "add them up")
            async for _ in run.stream_events():
                pass
    assert run.final_output == "10"
    assert seen.shape == [(0, 0), (1, 1), (2, 1)]
