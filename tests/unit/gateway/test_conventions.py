"""What clients of every convention say, read from the one table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.errors import HTTPError
from agentix.gateway.identity.conventions import PROGRAM_SOURCES, Source, read_claim

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLAUDE = "user_ab12_account_6a36-77_session_11f4c0de-1"


@pytest.mark.parametrize(
    ("headers", "body", "program_id"),
    [
        ({"x-agentix-program": "p"}, {}, "p"),
        ({"x-session-id": "p"}, {}, "p"),
        ({"x-claude-code-session-id": "p"}, {}, "p"),
        ({"session-id": "p", "thread-id": "t"}, {}, "p"),
        ({"session_id": "p"}, {}, "p"),
        ({"x-dynamo-session-id": "p"}, {}, "p"),
        ({"x-session-affinity": "p"}, {}, "p"),
        ({"x-litellm-trace-id": "p"}, {}, "p"),
        ({"x-session-token": "p"}, {}, "p"),
        ({"x-llm-d-inference-fairness-id": "p"}, {}, "p"),
        ({}, {"session_id": "p"}, "p"),
        ({}, {"program_id": "p"}, "p"),
        ({}, {"session_params": {"session_id": "p"}}, "p"),
        ({}, {"nvext": {"agent_context": {"session_id": "p", "trajectory_id": "t"}}}, "p"),
        ({}, {"nvext": {"agent_context": {"trajectory_id": "p"}}}, "p"),
        ({}, {"vllm_xargs": {"session_id": "p"}}, "p"),
        ({}, {"vllm_xargs": {"agentic_context": {"program_id": "p"}}}, "p"),
        ({}, {"vllm_xargs": {"job_id": "p"}}, "p"),
        ({}, {"metadata": {"session_id": "p"}}, "p"),
        ({}, {"metadata": {"user_id": CLAUDE}}, "11f4c0de-1"),
        ({}, {"metadata": {"user_id": '{"device_id": "d", "account_uuid": "", "session_id": "p"}'}}, "p"),
        ({}, {"conversation": "p"}, "p"),
        ({}, {"conversation": {"id": "p"}}, "p"),
        ({"baggage": "a=1, gen_ai.conversation.id=p;x=1,session.id=q"}, {}, "p"),
        ({}, {"prompt_cache_key": "p"}, "p"),
        ({}, {"user": " p "}, "p"),
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, {}, TRACE),
    ],
)
def test_every_convention_names_a_program(headers: dict[str, str], body: dict[str, Any], program_id: str) -> None:
    assert read_claim(headers, body).session_id == program_id


def request_for(source: Source) -> tuple[dict[str, str], dict[str, Any]]:
    """A request that names a program in this one place."""
    value = {"baggage": "session.id=b", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}.get(source.header)
    value = CLAUDE if source.field == ("metadata", "user_id") else value or source.header or ".".join(source.field)
    if source.header:
        return {source.header: value}, {}
    nested: Any = value
    for key in reversed(source.field):
        nested = {key: nested}
    return {}, nested


@given(st.sets(st.integers(0, len(PROGRAM_SOURCES) - 1), min_size=1))
def test_the_first_source_of_the_table_wins(numbers: set[int]) -> None:
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    for number in sorted(numbers, reverse=True):
        more_headers, more = request_for(PROGRAM_SOURCES[number])
        headers |= more_headers
        for key, value in more.items():
            body[key] = merged(body[key], value) if key in body else value
    only = read_claim(*request_for(PROGRAM_SOURCES[min(numbers)]))
    claim = read_claim(headers, body)
    assert (claim.session_id, claim.weak) == (only.session_id, only.weak)


def merged(old: Any, new: Any) -> Any:
    """Both, where they are objects; else the one that comes first in the table, which is merged last."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{k: merged(old[k], v) if k in old else v for k, v in new.items()}}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, {"user": 7, "session_id": None, "metadata": "x", "nvext": [], "vllm_xargs": {"job_id": {}}}),
        ({"x-session-id": "", "baggage": "nothing", "traceparent": "00-x"}, {"conversation": {"id": 3}}),
        ({"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}, {"metadata": {"user_id": "somebody"}}),
        ({}, {"metadata": {"user_id": "{not json"}}),
        ({}, {"metadata": {"user_id": '{"session_id": 1}'}}),
        ({}, {"user": "x" * 257, "prompt_cache_key": "a\x00b", "session_id": "\ud800"}),
    ],
)
def test_what_holds_no_usable_id_names_nothing(headers: dict[str, str], body: dict[str, Any]) -> None:
    assert read_claim(headers, body).session_id is None


@pytest.mark.parametrize("name", ["x-agentix-program", "x-agentix-thread", "x-agentix-call", "x-agentix-parent"])
@pytest.mark.parametrize("value", ["\x00", "a\tb", "x" * 257])
def test_our_own_headers_must_be_right(name: str, value: str) -> None:
    with pytest.raises(HTTPError, match="printable"):
        read_claim({name: value}, {})


def test_threads_and_their_parents() -> None:
    claude = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"}
    claim = read_claim(claude, {})
    assert (claim.thread_id, claim.parent_thread_id, claim.parent_session_id) == ("b", "a", None)
    assert read_claim({"session-id": "s", "thread-id": "t"}, {}).thread_id == "t"
    opencode = read_claim({"x-session-id": "child", "x-parent-session-id": "root"}, {})
    assert (opencode.session_id, opencode.parent_session_id) == ("child", "root")
    itself = read_claim({"x-session-id": "s", "x-parent-session-id": "s"}, {})
    assert itself.parent_session_id is None


def test_dynamo_s_trajectories_are_threads_of_a_session_or_sessions_of_their_own() -> None:
    context = {"session_id": "s", "trajectory_id": "t", "parent_trajectory_id": "u", "trajectory_final": True}
    beside = read_claim({}, {"nvext": {"agent_context": context}})
    assert (beside.session_id, beside.thread_id, beside.parent_thread_id, beside.final) == ("s", "t", "u", False)
    del context["session_id"]
    alone = read_claim({}, {"nvext": {"agent_context": context}})
    assert (alone.session_id, alone.parent_session_id, alone.final) == ("t", "u", False)
    del context["parent_trajectory_id"]
    assert read_claim({}, {"nvext": {"agent_context": context}}).final


@pytest.mark.parametrize(
    ("headers", "body", "final"),
    [
        ({"x-dynamo-session-final": "true"}, {}, True),
        ({"x-dynamo-session-final": "1"}, {}, True),
        ({"x-dynamo-session-final": "false"}, {}, False),
        ({}, {"vllm_xargs": {"is_last_step": True}}, True),
        ({}, {"vllm_xargs": {"is_last_step": 0}}, False),
        ({}, {"is_last_step": 1}, True),
        ({}, {"nvext": {"agent_context": {"session_final": True}}}, True),
    ],
)
def test_final_turns(headers: dict[str, str], body: dict[str, Any], final: bool) -> None:
    assert read_claim(headers, body).final is final


def test_parents_unknown_none_and_some_are_three_things() -> None:
    assert read_claim({}, {}).parents is None
    assert read_claim({"x-agentix-parent": ""}, {}).parents == ()
    assert read_claim({"x-agentix-parent": "a, b,"}, {}).parents == ("a", "b")


def test_ids_are_utf8_in_headers_and_the_same_in_bodies() -> None:
    assert read_claim({"x-agentix-program": "é日".encode().decode("latin-1")}, {}).session_id == "é日"
    assert read_claim({"x-agentix-program": "\xe9"}, {}).session_id == "é"
    assert read_claim({}, {"user": " é日 "}).session_id == "é日"
