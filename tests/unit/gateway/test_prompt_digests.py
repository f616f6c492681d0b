"""Digests of prompts: what an engine answered is found again in the next prompt of every API, and no word can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import read_answers
from agentix.gateway.prompt_digests import PIECE_CHARS, Digested, digest_answer, digest_prompt

KEY = b"k" * 32
USER = {"role": "user", "content": "What is the weather in Turin?"}


def digests(messages: list[Digested]) -> set[str]:
    return {piece[0] for message in messages for piece in message}


CHAT = (
    Dialect.CHAT,
    {
        "choices": [
            {"message": {"content": "I look.", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}}
        ]
    },
    {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "I look. ",
                "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{ }"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "rain"},
        ]
    },
)
RESPONSES = (
    Dialect.RESPONSES,
    {
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
        ]
    },
    {
        "input": [
            USER,
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "rain"},
        ]
    },
)
MESSAGES = (
    Dialect.MESSAGES,
    {"content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
    {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "rain"}]},
        ]
    },
)


@pytest.mark.parametrize(("dialect", "answer", "body"), [CHAT, RESPONSES, MESSAGES])
def test_an_answer_is_found_in_the_prompt_that_goes_on_from_it(dialect: Dialect, answer: Any, body: dict[str, Any]) -> None:
    said = digest_answer(read_answers(dialect, answer)[0], KEY)
    prompt = digest_prompt(body, KEY)
    assert len(said) == 2  # words, and a tool call
    assert [len(message) for message in said] == [1, 1]
    assert prompt[1:3] == said
    assert len(prompt) == 4
    assert prompt[:1] == digest_prompt({"messages": [USER]}, KEY)


def test_nothing_of_the_text_can_be_read_or_found_without_the_key() -> None:
    body = {"messages": [{"role": "system", "content": "Be brief."}, USER]}
    told = json.dumps(digest_prompt(body, KEY))
    assert not any(word in told for word in ("weather", "Turin", "brief", "user", "system"))
    assert not digests(digest_prompt(body, b"o" * 32)) & digests(digest_prompt(body, KEY))


def test_long_messages_that_begin_alike_share_their_beginning() -> None:
    one, other = ("x" * 3 * PIECE_CHARS + end for end in ("one", "other"))
    first, second = (digest_prompt({"prompt": text}, KEY) for text in (one, other))
    assert [length for _, length in first[0]] == [PIECE_CHARS] * 3 + [3]
    assert first[0][:3] == second[0][:3]
    assert first[0][3] != second[0][3]


def test_what_stands_before_the_messages_counts_as_it_stands_and_cache_marks_do_not() -> None:
    part = {"type": "text", "text": "You are a coder."}
    plain = {"system": [part], "tools": [{"name": "f"}], "messages": [USER]}
    marked = {**plain, "system": [{**part, "cache_control": {"type": "ephemeral"}}]}
    changed = {**plain, "system": [{**part, "text": "You are a coder. Build 7."}]}
    assert digest_prompt(marked, KEY) == digest_prompt(plain, KEY)
    tools, system, user = digest_prompt(plain, KEY)
    assert digest_prompt(changed, KEY)[::2] == [tools, user]
    assert digest_prompt(changed, KEY)[1] != system


@pytest.mark.parametrize(
    "body", [{}, {"messages": []}, {"messages": None}, {"messages": 3}, {"prompt": [1, 2, 3]}, {"input": ["a", "b"]}]
)
def test_whatever_a_body_holds_has_digests(body: dict[str, Any]) -> None:
    found = digest_prompt(body, KEY)
    assert len(found) == {"input": 2}.get(next(iter(body), ""), 1 if any(body.values()) else 0)
    assert all(length > 0 for message in found for _, length in message)
