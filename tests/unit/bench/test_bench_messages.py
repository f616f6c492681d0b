"""Recorded messages made acceptable to any server."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentix.bench.messages import normalise


def test_plain_messages_stay() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    assert normalise(messages) == messages


def test_a_tool_message_without_id_becomes_a_user_message() -> None:
    assert normalise([{"role": "tool", "content": "42"}]) == [{"role": "user", "content": "42"}]
    assert normalise([{"role": "tool", "content": None}]) == [{"role": "user", "content": ""}]


def test_properly_linked_tool_calls_stay() -> None:
    calls = [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    linked: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "42", "tool_call_id": "x"},
    ]
    assert normalise(linked) == linked


def test_a_tool_message_for_an_unannounced_call_becomes_a_user_message() -> None:
    assert normalise([{"role": "tool", "content": "42", "tool_call_id": "x"}]) == [{"role": "user", "content": "42"}]


def test_tool_calls_without_ids_become_text() -> None:
    calls = [{"function": {"name": "f", "arguments": "{}"}}, {"id": "x", "function": {"name": "g"}}]
    text = '<tool_call>{"name": "f", "arguments": "{}"}</tool_call>\n<tool_call>{"name": "g"}</tool_call>'
    answer = {"role": "tool", "content": "42", "tool_call_id": "x"}
    for content, expected in [(None, text), ("", text), ("so:", f"so:\n{text}")]:
        sent = normalise([{"role": "assistant", "content": content, "tool_calls": calls}, answer])
        assert sent == [{"role": "assistant", "content": expected}, {"role": "user", "content": "42"}]


def test_tool_calls_without_ids_join_content_parts() -> None:
    part = {"type": "text", "text": "so:"}
    (sent,) = normalise([{"role": "assistant", "content": [part], "tool_calls": ["odd"]}])
    assert sent["content"] == [part, {"type": "text", "text": '<tool_call>"odd"</tool_call>'}]


message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.sampled_from(["", "x", None])},
    optional={
        "tool_call_id": st.sampled_from(["1", "2"]),
        "tool_calls": st.lists(st.sampled_from([{"id": "1"}, {"id": "2"}, {"function": {}}]), max_size=2),
    },
)


@given(st.lists(message), st.lists(message))
def test_what_shared_a_prefix_still_does(prefix: list[dict[str, Any]], rest: list[dict[str, Any]]) -> None:
    assert normalise(prefix + rest)[: len(prefix)] == normalise(prefix)
