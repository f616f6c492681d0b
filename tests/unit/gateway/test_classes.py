"""Classes of programs whose clients name none: what makes two of one, and what two of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import named_class, read_prompt, work_out_class

CODER = "You are a coding agent.\nWorking directory: {path}\nToday is {date}.\nSession {session}\nBe brief."
HERE = {"path": "/home/ann/app-1", "date": "Monday, November 30, 2026", "session": "0b2e9c1a-77aa-4c1e-9d4e-5b8a1f2c3d4e"}
THERE = {"path": r"C:\src\tool", "date": "Sat, May 2, 2027, 9:15 AM UTC", "session": "d41d8cd9"}


def class_of(
    preamble: str, *tools: str, tenant: str = "", model: Any = "m", dialect: Dialect = Dialect.CHAT, **body: Any
) -> str | None:
    """Of a chat call with this system prompt and these tools."""
    listed = [{"type": "function", "function": {"name": name}} for name in tools]
    messages = [{"role": "system", "content": preamble}, {"role": "user", "content": "hi"}]
    said = {"model": model, "messages": messages, "tools": listed, **body}
    return work_out_class(tenant, said, read_prompt(dialect, said).preamble)


def test_what_differs_from_session_to_session_does_not_count() -> None:
    one = class_of(CODER.format(**HERE), "bash", "edit")
    assert one == class_of(CODER.format(**THERE), "edit", "bash", "bash")
    assert one is not None
    assert one.startswith("auto-")
    assert len(one) == len("auto-") + 6
    int(one.removeprefix("auto-"), 16)


def test_every_other_word_tool_model_or_tenant_makes_another_class() -> None:
    prompt = CODER.format(**HERE)
    kinds = [
        class_of(prompt, "bash"),
        class_of(prompt.replace("coding", "research"), "bash"),
        class_of(prompt, "bash", "edit"),
        class_of(prompt),
        class_of("", "bash"),
        class_of(prompt, "bash", model="n"),
        class_of(prompt, "bash", model=None),
        class_of(prompt, "bash", tenant="acme"),
    ]
    assert None not in kinds
    assert len(set(kinds)) == len(kinds)


def test_a_name_in_the_prompt_splits_a_class() -> None:
    """What cannot be told from what the agent is told to do; documented as it is."""
    assert class_of("You help Ann.") != class_of("You help Bob.")


def test_the_beginning_counts() -> None:
    begin = "word " * 300  # more than 1,024 characters
    assert class_of(begin + "src README git-status") == class_of(begin + "other files")
    assert class_of("word " * 100 + "a") != class_of("word " * 100 + "b")


def test_dates_in_a_script_without_spaces_take_no_sentence_with_them() -> None:
    assert class_of("你是编程助手。今天是2026年11月30日。") == class_of("你是编程助手。今天是2027年1月2日。")
    assert class_of("你是编程助手。今天是2026年11月30日。") != class_of("你是研究助手。今天是2026年11月30日。")


@pytest.mark.parametrize("tools", [None, "bash", [], [None, 7, "bash", {}, {"name": ""}, {"function": {"name": 3}}]])
def test_a_call_that_tells_nothing_has_no_class(tools: Any) -> None:
    assert class_of("", tools=tools) is None
    assert class_of("2026/11/30", tools=tools) is None  # nothing is left of it


def test_every_api_tells_it_in_its_own_shape() -> None:
    """The same agent over another API is the same class; raw prompts and inputs of embeddings tell nothing."""
    rules, expected = "You are a coding agent.", class_of("You are a coding agent.", "bash", "web_search")
    user = {"role": "user", "content": "hi"}
    shapes: list[tuple[Dialect, dict[str, Any]]] = [
        (Dialect.CHAT, {"messages": [{"role": "developer", "content": [{"type": "text", "text": rules}]}, user],
                        "functions": [{"name": "web_search"}, {"name": "bash"}]}),
        (Dialect.CHAT, {"messages": [{"role": "system", "content": rules}, user],
                        "tools": [{"type": "custom", "custom": {"name": "bash"}}, {"type": "web_search"}]}),
        (Dialect.RESPONSES, {"instructions": rules, "input": "hi",
                             "tools": [{"type": "function", "name": "bash"}, {"type": "web_search"}]}),
        (Dialect.MESSAGES, {"system": [{"type": "text", "text": rules}], "messages": [user],
                            "tools": [{"name": "bash", "input_schema": {}}, {"type": "web_search_20", "name": "web_search"}]}),
    ]  # fmt: skip
    for dialect, body in shapes:
        said = {"model": "m", **body}
        assert work_out_class("", said, read_prompt(dialect, said).preamble) == expected
    for dialect, body in ((Dialect.COMPLETIONS, {"prompt": rules}), (Dialect.EMBEDDINGS, {"input": [rules]})):
        assert work_out_class("", body, read_prompt(dialect, body).preamble) is None


def test_a_class_can_be_named_with_the_call() -> None:
    assert named_class({"vllm_xargs": {"agentix_class": "coder"}}) == "coder"
    nothing: list[Any] = [None, [], {}, {"agentix_class": 7}, {"agentix_class": ""}, {"agentix_class": "a\nb"}]
    for xargs in nothing:
        assert named_class({"vllm_xargs": xargs}) is None


@given(st.text(max_size=6000), st.lists(st.text(max_size=8), max_size=4), st.randoms())
def test_any_prompt_gives_a_class_or_none_and_always_the_same(prompt: str, tools: list[str], shuffle: Any) -> None:
    found = class_of(prompt, *tools)
    shuffled = [*tools, *tools]
    shuffle.shuffle(shuffled)
    assert found == class_of(prompt, *shuffled)
    assert found is None or (found.startswith("auto-") and len(found) == 11)
    if len(prompt) < 1000 and prompt.strip():  # a session's own word at the end changes nothing
        assert class_of(f"{prompt} 2026-11-30", *tools) == found
