"""Whatever JSON a client sends, reading it raises nothing but an error that is the client's to hear."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentix.core.program import CallRow, ProgramRow
from agentix.gateway.apis import APIS
from agentix.gateway.deltas import Deltas
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Identity, Sessions, make_trail, read_answers, read_claim, read_prompt
from agentix.gateway.preambles import normalise
from agentix.gateway.prompt_length import tokens_by_rule
from agentix.gateway.upstream import upstream_body

KEYS = (
    *("messages", "role", "content", "type", "text", "tool_calls", "id", "function", "name", "arguments", "input", "output"),
    *("system", "instructions", "prompt", "model", "session_id", "vllm_xargs", "agentic_context", "nvext", "agent_context"),
    *("agent_hints", "priority", "metadata", "user_id", "conversation", "previous_response_id", "user", "stream"),
    *("stream_options", "include_usage", "call_id", "choices", "delta", "message", "index", "item", "response"),
    *("content_block", "partial_json", "usage"),
)
WORDS = (
    "message",
    "text",
    "user",
    "assistant",
    "system",
    "function_call",
    "tool_use",
    "tool_result",
    "reasoning",
    "{",
    "",
    "x" * 300,
)
leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.just(1.5) | st.sampled_from(WORDS)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
bodies = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)


@given(bodies, st.sampled_from(APIS), st.booleans())
@example({"previous_response_id": [], "stream": True, "stream_options": 3, "vllm_xargs": []}, APIS[2], True)
def test_any_body_is_read(body: dict[str, Any], api: Any, plugin: bool) -> None:
    sessions = Sessions()
    with suppress(HTTPError):
        trail = make_trail("", read_prompt(api.dialect, normalise(body)))
        identity = sessions.identify(read_claim({}, body), trail)
        sessions.arrived(identity, identity.call_id)
        sessions.answered(identity, identity.call_id, trail, read_answers(api.dialect, body), engine_id="e")
        assert sessions.engine_of("", body.get("previous_response_id")) is None
        assert tokens_by_rule(body) >= 0
        row = ProgramRow(program_id="p", started_s=0.0)
        call = CallRow(call_id="c", program_id="p", arrived_s=0.0)
        sent = upstream_body(api, body, Identity(program_id="p", call_id="c"), row, call, plugin=plugin)
        changed = {"session_id", "stream_options", "vllm_xargs"}
        assert {k: v for k, v in sent.items() if k not in changed} == {k: v for k, v in body.items() if k not in changed}
        json.dumps(sent)


@given(st.lists(bodies, max_size=5), st.sampled_from(APIS))
def test_any_stream_is_read(events: list[dict[str, Any]], api: Any) -> None:
    deltas = Deltas(api.dialect)
    for event in events:
        deltas.add(event)
    read_answers(api.dialect, deltas.answer())
