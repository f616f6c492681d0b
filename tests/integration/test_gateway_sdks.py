"""The real OpenAI and Anthropic SDKs through the gateway: parsed answers, streams, and errors as their own exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest

from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway
from recorded_engine import RESPONSE_ID, RecordedEngine

MESSAGES: Any = [{"role": "user", "content": "Say hello"}]
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
TOOL: Any = {"type": "function", "function": {"name": "get_weather"}}


@asynccontextmanager
async def openai_client(engine: RecordedEngine, **config: Any) -> AsyncIterator[tuple[openai.AsyncOpenAI, System]]:
    async with gateway(engine, **config) as system:
        await system.models_known()
        async with openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key="k", max_retries=0) as client:
            yield client, system


@asynccontextmanager
async def anthropic_client(engine: RecordedEngine, **config: Any) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, System]]:
    async with gateway(engine, **config) as system:
        await system.models_known()
        async with anthropic.AsyncAnthropic(base_url=system.url, api_key="k", max_retries=0) as client:
            yield client, system


async def test_openai_chat_streamed_or_not_with_unknown_fields() -> None:
    engine = RecordedEngine()
    async with openai_client(engine) as (client, _):
        extra = {"structured_outputs": {"choice": ["a"]}, "nvext": {"agent_hints": {"osl": 5}}}
        image: Any = [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, *()]},
        ]
        answer = await client.chat.completions.create(
            model="tiny", messages=image, logprobs=True, extra_body=extra, response_format={"type": "json_object"}
        )
        assert answer.choices[0].message.content == " Hert recitingenariotot"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 4
        assert {k: engine.last_body[k] for k in extra} == extra
        assert engine.last_body["messages"] == image
        assert engine.last_headers["authorization"] == "Bearer k"
        chunks = [c async for c in await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)]
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == " Hert recitingenariotot"
        assert all(c.usage is None for c in chunks)


async def test_openai_tools_come_in_pieces() -> None:
    async with openai_client(RecordedEngine()) as (client, _):
        stream = await client.chat.completions.create(
            model="tiny", messages=MESSAGES, tools=TOOLS, tool_choice=TOOL, stream=True, stream_options={"include_usage": True}
        )
        chunks = [c async for c in stream]
        calls = [t for c in chunks if c.choices for t in c.choices[0].delta.tool_calls or ()]
        assert calls[0].function is not None
        assert calls[0].function.name == "get_weather"
        assert chunks[-1].usage is not None


async def test_openai_completions_responses_embeddings_and_models() -> None:
    async with openai_client(RecordedEngine()) as (client, system):
        assert (await client.completions.create(model="tiny", prompt="a b")).choices[0].text.startswith(" empt")
        response = await client.responses.create(model="tiny", input="Say hello")
        assert response.output_text == " division fractured accord struggled"
        assert (await client.responses.retrieve(RESPONSE_ID)).id == RESPONSE_ID
        events = [e async for e in await client.responses.create(model="tiny", input="Say hello", stream=True)]
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        embeddings = await client.embeddings.create(model="tiny", input="x", encoding_format="float")
        assert embeddings.data[0].embedding == [0.5, -1.0]
        assert [m.id async for m in client.models.list()] == ["tiny"]
        assert (await client.models.retrieve("tiny")).id == "tiny"
        assert not system.table.calls


async def test_openai_errors_are_the_sdk_s_own() -> None:
    async with openai_client(RecordedEngine(breaks_after=2)) as (client, system):
        with pytest.raises(openai.NotFoundError, match="'nope' does not exist") as refused:
            await client.chat.completions.create(model="nope", messages=MESSAGES)
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.APIError, match="broke off"):
            _ = [c async for c in await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)]
        events = [e async for e in await client.responses.create(model="tiny", input="hi", stream=True)]
        assert events[-1].type == "error"
        assert "broke off" in events[-1].message
        system.app.state.pool.states["e0"].healthy = False
        with pytest.raises(openai.InternalServerError, match="no engine"):
            await client.chat.completions.create(model="tiny", messages=MESSAGES)


async def test_no_sdk_tries_a_cancelled_call_again() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine) as system:
        headers = {"X-Agentix-Program": "p"}
        async with (
            openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key="k", default_headers=headers) as client,
            anthropic.AsyncAnthropic(base_url=system.url, api_key="k", default_headers=headers) as other,
        ):
            calls: list[Any] = [
                asyncio.create_task(client.chat.completions.create(model="fake", messages=MESSAGES)),
                asyncio.create_task(client.responses.create(model="fake", input="Say hello")),
                asyncio.create_task(other.messages.create(model="fake", messages=MESSAGES, max_tokens=4)),
            ]
            await eventually(lambda: engine.num_active == 3)
            await system.client.post("/v1/programs/p/cancel")
            errors: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        assert [e.status_code for e in errors] == [499] * 3
        assert [e.code for e in errors[:2]] == ["program_cancelled"] * 2
        assert errors[2].body["error"]["message"] == "the call was cancelled with its program 'p'"
        assert len(engine.requests) == 3


async def test_anthropic_messages_streamed_or_not_and_counted() -> None:
    engine = RecordedEngine()
    async with anthropic_client(engine) as (client, system):
        answer = await client.messages.create(
            model="tiny",
            max_tokens=4,
            messages=MESSAGES,
            system="Be brief.",
            metadata={"user_id": "user_a_account_b_session_s-1"},
        )
        assert answer.content[0].type == "text"
        assert answer.usage.output_tokens == 4
        assert engine.last_headers["authorization"] == "Bearer k"
        assert engine.last_headers["x-session-id"] == "s-1"
        async with client.messages.stream(model="tiny", max_tokens=4, messages=MESSAGES) as stream:
            text = "".join([piece async for piece in stream.text_stream])
        assert text == "auraulence propagate ventricular"
        final = await stream.get_final_message()
        assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 4)
        assert (await client.messages.count_tokens(model="tiny", messages=MESSAGES)).input_tokens == 32
        assert system.table.row("s-1").num_finished == 1


async def test_anthropic_errors_are_the_sdk_s_own() -> None:
    async with anthropic_client(RecordedEngine(breaks_after=3), health_period_s=60) as (client, system):
        with pytest.raises(anthropic.NotFoundError, match="not_found_error"):
            await client.messages.create(model="nope", max_tokens=4, messages=MESSAGES)
        with pytest.raises(anthropic.APIStatusError, match="broke off"):
            async with client.messages.stream(model="tiny", max_tokens=4, messages=MESSAGES) as stream:
                await stream.get_final_message()
        system.app.state.pool.states["e0"].healthy = False
        with pytest.raises(anthropic.InternalServerError, match="overloaded_error"):
            await client.messages.create(model="tiny", max_tokens=4, messages=MESSAGES)
