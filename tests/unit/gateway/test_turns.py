"""The same conversation in the spelling of every API is the same turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.gateway.apis import Dialect
from agentix.gateway.deltas import Deltas
from agentix.gateway.identity.turns import Prompt, Turn, append_raw, long_lines, read_answers, read_prompt

CALL = Turn("assistant", 'f({"a": 1, "b": "x"})', ("call_12345",))
EXPECTED = (Turn("user", "hi"), Turn("assistant", "Hello!"), CALL, Turn("tool", "42"), Turn("user", "go on"))


def chat_call(arguments: str) -> dict[str, Any]:
    return {"id": "call_12345", "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            Dialect.CHAT,
            {
                "messages": [
                    {"role": "system", "content": "rules"},
                    {"role": "user", "content": "hi"},
                    {
                        "role": "assistant",
                        "content": " Hello! ",
                        "reasoning_content": "hm",
                        "tool_calls": [chat_call('{"b":"x", "a":1}')],
                    },
                    {"role": "tool", "tool_call_id": "call_12345", "content": "42"},
                    {"role": "user", "content": [{"type": "text", "text": "go on"}]},
                ]
            },
        ),
        (
            Dialect.RESPONSES,
            {
                "instructions": "rules",
                "input": [
                    {"role": "user", "content": "hi"},
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]},
                    {"type": "function_call", "call_id": "call_12345", "name": "f", "arguments": '{"a": 1, "b": "x"}'},
                    {"type": "function_call_output", "call_id": "call_12345", "output": "42"},
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
                ],
            },
        ),
        (
            Dialect.MESSAGES,
            {
                "system": [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}],
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "<system-reminder>now"}],
                    },
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "hm", "signature": "s"},
                            {"type": "text", "text": "Hello!"},
                            {"type": "tool_use", "id": "call_12345", "name": "f", "input": {"b": "x", "a": 1}},
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "call_12345", "content": [{"type": "text", "text": "42"}]},
                            {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}},
                        ],
                    },
                ],
            },
        ),
    ],
)
def test_a_conversation_is_the_same_in_every_api(dialect: Dialect, body: dict[str, Any]) -> None:
    prompt = read_prompt(dialect, body)
    assert prompt.turns == EXPECTED
    assert prompt.preamble == "rules"


STREAMS: dict[Dialect, list[dict[str, Any]]] = {
    Dialect.CHAT: [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo!"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **chat_call("")}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1,'}}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"b":"x"}'}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ],
    Dialect.RESPONSES: [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_text.delta", "delta": "Hello!"},
        {"type": "response.output_item.done", "item": {"type": "reasoning"}},
        {
            "type": "response.output_item.done",
            "item": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]},
        },
        {
            "type": "response.output_item.done",
            "item": {"type": "function_call", "call_id": "call_12345", "name": "f", "arguments": '{"a":1,"b":"x"}'},
        },
    ],
    Dialect.MESSAGES: [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello!"}},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "call_12345", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1, '}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"b": "x"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ],
}


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_streamed_answer_is_what_the_client_sends_back(dialect: Dialect) -> None:
    deltas = Deltas(dialect)
    for event in STREAMS[dialect]:
        deltas.add(event)
    assert read_answers(dialect, deltas.answer()) == [EXPECTED[1:3]]


def test_every_choice_is_an_answer() -> None:
    deltas = Deltas(Dialect.CHAT)
    for index, piece in ((1, "b"), (0, "a"), (1, "c")):
        deltas.add({"choices": [{"index": index, "delta": {"content": piece}}]})
    assert read_answers(Dialect.CHAT, deltas.answer()) == [(Turn("assistant", "a"),), (Turn("assistant", "bc"),)]
    plain = {"choices": [{"text": "a"}, {"text": "b"}, {"text": None}]}
    assert read_answers(Dialect.COMPLETIONS, plain) == [(Turn("assistant", "a"),), (Turn("assistant", "b"),)]


def test_a_raw_prompt_is_its_lines_and_an_answer_may_begin_within_one() -> None:
    prompt = read_prompt(Dialect.COMPLETIONS, {"prompt": "Q: hi \nA:"})
    assert prompt == Prompt((Turn("text", "Q: hi"), Turn("text", "A:")), raw="Q: hi \nA:")
    grown = append_raw("Q: hi \nA:", [Turn("assistant", " hello\nQ: go on")])
    assert grown == (Turn("text", "Q: hi"), Turn("text", "A: hello"), Turn("text", "Q: go on"))


@pytest.mark.parametrize(
    "body", [{}, {"messages": 3}, {"messages": [1, None, {"role": 5}]}, {"messages": [{"content": {"a": 1}}]}]
)
def test_malformed_messages_are_no_turns(body: dict[str, Any]) -> None:
    for dialect in Dialect:
        assert read_prompt(dialect, body).turns == ()


@pytest.mark.parametrize("answer", [None, [], {}, {"choices": 3}, {"choices": [3, {"message": 4}]}, {"output": "x"}])
def test_what_is_no_answer_holds_nothing(answer: Any) -> None:
    for dialect in Dialect:
        assert not any(read_answers(dialect, answer))


def test_deep_nesting_is_survived() -> None:
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    read_prompt(Dialect.CHAT, {"messages": [{"role": "user", "content": [{"type": "x", "y": nested}]}]})


def test_long_lines_are_found_within_the_arguments_of_calls_too() -> None:
    task = {"steps": [{"prompt": 'Read "all" of it.\nThen write a long report about ï.\nStop.'}]}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "task", "arguments": json.dumps(task)}}]}
    turns = read_prompt(
        Dialect.CHAT, {"messages": [message, {"role": "user", "content": "A line that is long enough for it."}]}
    ).turns
    assert list(long_lines(turns, 30)) == ["Then write a long report about ï.", "A line that is long enough for it."]
