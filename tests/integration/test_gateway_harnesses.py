"""What Claude Code, Codex, OpenCode and other systems' clients send, with their ids and without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway_system import gateway
from recorded_engine import RecordedEngine, recorded

BILLING = "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch={:05x};"


def claude_code(turns: list[Any], number: int) -> dict[str, Any]:
    """A call of Claude Code: a billing line that differs in every call, reminders, moving cache marks, thinking."""
    marked = [*turns[:-1], {**turns[-1], "content": [*turns[-1]["content"]]}]
    marked[-1]["content"][-1] = {**marked[-1]["content"][-1], "cache_control": {"type": "ephemeral"}}
    return {
        "model": "tiny",
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": BILLING.format(number)},
            {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "user_ab_account__session_11f4c0de"},
        "messages": marked,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def said_by(stream: bytes) -> str:
    """The text that a recorded stream of Messages holds."""
    events = [json.loads(e.split(b"data: ")[1]) for e in stream.split(b"\n\n") if b"data: " in e]
    return "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta")


def claude_turns() -> tuple[list[Any], list[Any]]:
    """The messages of a first call, and of the one that follows the recorded answer."""
    reminder = text("<system-reminder>\nYour todo list is empty.\n</system-reminder>")
    first = [{"role": "user", "content": [reminder, text("fix the bug")]}]
    answer = {"role": "assistant", "content": [text(said_by(recorded("messages_stream")))]}
    second = [
        {"role": "user", "content": [text("fix the bug")]},
        answer,
        {"role": "user", "content": [reminder, text("go on")]},
    ]
    return first, second


async def test_claude_code_with_its_headers() -> None:
    engine = RecordedEngine()
    first, second = claude_turns()
    async with gateway(engine, plugin=True) as system:
        session = {"x-claude-code-session-id": "s", "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
        agent = {**session, "x-claude-code-agent-id": "a1"}
        sub_agent = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "look"}]}
        main = await system.post("/v1/messages?beta=true", claude_code(first, 1), session)
        assert main.content == recorded("messages_stream")
        assert engine.last_body["system"][0]["text"] == BILLING.format(1), "nothing is normalised unless asked for"
        await system.post("/v1/messages", sub_agent, agent)
        child_path_s = engine.last_body["vllm_xargs"]["agentix_path_s"]
        await system.post("/v1/messages", claude_code(second, 2), session)
        assert {r["x-agentix-program"] for r in [dict(main.headers)]} == {"s"}
        row = system.table.row("s")
        assert row.num_finished == 3
        ends = sorted(row.path_s.values())
        assert child_path_s == ends[0] > 0, "the agent's first call follows the call that launched it"
        assert engine.last_body["vllm_xargs"]["agentix_path_s"] == ends[1], "and its end comes before what follows"
        assert engine.last_headers["anthropic-beta"] == "a,b"


async def test_claude_code_without_headers_is_known_by_its_user_id_and_without_that_by_its_words() -> None:
    first, second = claude_turns()
    async with gateway(RecordedEngine()) as system:
        response = await system.post("/v1/messages", claude_code(first, 1))
        assert response.headers["x-agentix-program"] == "11f4c0de"
        bodies = [claude_code(turns, number) for number, turns in enumerate((first, second))]
        for body in bodies:
            del body["metadata"]
        programs = [(await system.post("/v1/messages", body)).headers["x-agentix-program"] for body in bodies]
        assert programs[0] == programs[1]
        assert programs[0].startswith("anonymous-")


async def test_preambles_are_normalised_only_on_request() -> None:
    engine = RecordedEngine()
    first, _ = claude_turns()
    async with gateway(engine, normalise_preambles=True) as system:
        for number in (1, 2):
            await system.post("/v1/messages", claude_code(first, number))
        assert engine.requests[0][2] == engine.requests[1][2]
        assert [part["text"] for part in engine.last_body["system"]] == ["You are Claude Code."]


async def test_codex() -> None:
    """Responses without storage: the whole history as items each time, reasoning and calls among them."""
    engine = RecordedEngine()
    headers = {"session-id": "s", "thread-id": "s", "originator": "codex_cli_rs"}
    history = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
    ]
    body = {
        "model": "tiny",
        "instructions": "You are Codex.",
        "input": history,
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False}],
        "tool_choice": None,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "high", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s",
    }
    async with gateway(engine) as system:
        response = await system.post("/v1/responses", body, headers)
        assert response.content == recorded("responses_stream")
        assert engine.last_body == body
        assert response.headers["x-agentix-program"] == "s"
        output = json.loads(response.content.split(b"data: ")[-1])["response"]["output"]
        del body["prompt_cache_key"]
        anonymous = (await system.post("/v1/responses", body)).headers["x-agentix-program"]
        grown = [*history, {"type": "reasoning", "summary": [], "encrypted_content": "x"}, *output]
        more = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}
        after = await system.post("/v1/responses", {**body, "input": [*grown, more]})
        assert after.headers["x-agentix-program"] == anonymous != "s"


async def test_opencode_s_sub_agent_is_a_thread_of_the_program() -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True}
    async with gateway(RecordedEngine()) as system:
        await system.post("/v1/chat/completions", chat, {"x-session-id": "root", "x-session-affinity": "root"})
        child = {"x-session-id": "child", "x-session-affinity": "child", "x-parent-session-id": "root"}
        response = await system.post("/v1/chat/completions", chat, child)
        assert response.headers["x-agentix-program"] == "root"
        assert list(system.table.rows) == ["root"]


@pytest.mark.parametrize(
    ("vendor", "sent"),
    [
        ({"vllm_xargs": {"agentic_context": {"program_id": "p", "ttl": 5}, "mine": 1}}, {"mine": 1}),
        ({"vllm_xargs": {"job_id": "p", "is_last_step": False, "nothing": None}}, {"job_id": "p", "is_last_step": False}),
    ],
)
async def test_vendor_fields_reach_a_stock_engine_flat(vendor: dict[str, Any], sent: dict[str, Any]) -> None:
    engine = RecordedEngine()
    async with gateway(engine) as system:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], **vendor}
        response = await system.post("/v1/chat/completions", body)
        assert (response.status_code, response.headers["x-agentix-program"]) == (200, "p")
        flat = engine.last_body["vllm_xargs"]
        assert flat == {**sent, **{k: v for k, v in flat.items() if k.startswith("agentic_context_")}}
        assert flat.get("agentic_context_program_id", "p") == "p"
        assert engine.last_headers["x-session-id"] == "p"
        assert "x-vllm-priority" not in engine.last_headers


async def test_dynamo_s_hints_reach_an_engine_that_takes_priorities() -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "nvext": {"agent_hints": {"priority": 5}}}
    for plugin, priority in ((True, "-5"), (False, None)):
        engine = RecordedEngine()
        async with gateway(engine, plugin=plugin) as system:
            await system.post("/v1/chat/completions", body, {"x-dynamo-session-id": "p"})
            assert engine.last_headers.get("x-vllm-priority") == priority
            await system.post("/v1/chat/completions", {**body, "priority": 1})
            assert "x-vllm-priority" not in engine.last_headers


async def test_a_final_turn_and_a_release_end_the_program() -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}
    async with gateway(RecordedEngine()) as system:
        await system.post("/v1/chat/completions", chat, {"x-dynamo-session-id": "p"})
        assert "p" in system.table.rows
        await system.post("/v1/chat/completions", chat, {"x-dynamo-session-id": "p", "x-dynamo-session-final": "true"})
        assert "p" not in system.table.rows
        await system.post("/v1/chat/completions", {**chat, "program_id": "q"})
        released = await system.post("/programs/release", {"program_id": "q"})
        assert (released.status_code, released.json()["num_finished"]) == (200, 1)
        assert (await system.post("/programs/release", {"program_id": "q"})).status_code == 404
        assert (await system.post("/programs/release", {})).status_code == 400
        assert not system.table.rows
