"""Prompts of every API as chat messages, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.gateway.prompt_texts import prompt_messages

TOOL = {"type": "function", "function": {"name": "add"}}
TOOL_TEXT = '[{"type": "function", "function": {"name": "add"}}]'
USER = {"role": "user", "content": "Hi"}


def call(arguments: str = '{"a": 1}') -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}


def test_a_chat_stays_as_it_is() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    assert prompt_messages({"messages": chat}) == chat


def test_cache_marks_go_and_nothing_else_of_a_part() -> None:
    part = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    assert prompt_messages({"messages": [{"role": "user", "content": [part]}]}) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    ]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ([], TOOL_TEXT),
        ([{"role": "system", "content": "Be brief."}], f"{TOOL_TEXT}\n\nBe brief."),
        ([{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}], f"{TOOL_TEXT}\n\nBe brief."),
    ],
)
def test_tools_stand_before_the_system_prompt(system: list[Any], expected: str) -> None:
    assert prompt_messages({"tools": [TOOL], "messages": [*system, USER]}) == [{"role": "system", "content": expected}, USER]


def test_anthropic_s_blocks_become_messages_with_tool_use_as_text() -> None:
    body = {
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "1"}]},
                    {"type": "image", "source": {"data": "AAAA"}},
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    }
    assert prompt_messages(body) == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": 'I add.\n\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'},
        {"role": "tool", "content": "1"},
        {"role": "user", "content": "[image]\n\nSo?"},
    ]


def test_items_of_the_responses_api_become_messages() -> None:
    body = {
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
            {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": "One."},
        ],
    }
    assert prompt_messages(body) == [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "One."},
    ]


def test_text_alone_is_what_the_user_says_and_token_ids_are_no_text() -> None:
    assert prompt_messages({"prompt": "Hi"}) == [USER]
    assert prompt_messages({"input": "Hi"}) == [USER]
    assert prompt_messages({"prompt": ["Hi", "Ho"]}) == [USER, {"role": "user", "content": "Ho"}]
    assert prompt_messages({"prompt": [1, 2, 3]}) is None
    assert prompt_messages({}) == []


def test_content_of_a_strange_kind_becomes_text_that_a_trace_may_hold() -> None:
    body = {"messages": [{"role": "user", "content": {"a": 1}}, {"content": "of nobody"}]}
    assert prompt_messages(body) == [{"role": "user", "content": '{"a": 1}'}]
