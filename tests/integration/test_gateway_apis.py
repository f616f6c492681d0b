"""Every API over real sockets: what the engine said is what the client gets, and the process table knows what it cost."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from starlette.responses import Response

from agentix.gateway.apis import APIS
from gateway_system import System, eventually, gateway
from recorded_engine import EMBEDDINGS, RESPONSE_ID, RecordedEngine, recorded

MESSAGES = [{"role": "user", "content": "Say hello"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CHAT = {"model": "tiny", "messages": MESSAGES}
RESPONSES = {"model": "tiny", "input": "Say hello"}
ANTHROPIC = {"model": "tiny", "max_tokens": 4, "messages": MESSAGES}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}

# path, body, what was recorded, tokens of prompt and answer
CASES: dict[str, tuple[str, dict[str, Any], str, int | None, int | None]] = {
    "chat": ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 1}, "chat", 32, 4),
    "chat stream": ("/v1/chat/completions", {**CHAT, **USAGE}, "chat_stream_usage", 32, 4),
    "chat tool": ("/v1/chat/completions", {**CHAT, "tools": [TOOL], "tool_choice": "required"}, "chat_tool", None, None),
    "chat tool stream": (
        "/v1/chat/completions",
        {**CHAT, **USAGE, "tools": [TOOL], "tool_choice": "required"},
        "chat_tool_stream_usage",
        None,
        None,
    ),
    "completions": ("/v1/completions", {"model": "tiny", "prompt": "a b"}, "completions", 2, 4),
    "completions stream": ("/v1/completions", {"model": "tiny", "prompt": "a b", **USAGE}, "completions_stream_usage", 2, 4),
    "responses": ("/v1/responses", RESPONSES, "responses", 32, 4),
    "responses stream": ("/v1/responses", {**RESPONSES, "stream": True}, "responses_stream", 32, 4),
    "messages": ("/v1/messages", ANTHROPIC, "messages", 32, 4),
    "messages stream": ("/v1/messages", {**ANTHROPIC, "stream": True}, "messages_stream", 32, 4),
    "messages tool stream": (
        "/v1/messages",
        {**ANTHROPIC, "stream": True, "tool_choice": {"type": "any"}},
        "messages_tool_stream",
        32,
        33,
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_answer_is_the_engine_s_byte_for_byte_and_counted(case: str) -> None:
    path, body, name, prompt_tokens, output_tokens = CASES[case]
    engine = RecordedEngine()
    async with gateway(engine) as system:
        response = await system.post(path, body, {"x-session-id": "p", "x-mine": "kept", "anthropic-version": "2023-06-01"})
        assert (response.status_code, response.content) == (200, recorded(name))
        assert engine.requests[-1][0] == path
        assert engine.last_body == body
        assert (engine.last_headers["x-mine"], engine.last_headers["x-session-id"]) == ("kept", "p")
        row = system.table.row("p")
        assert (row.num_finished, row.num_aborted) == (1, 0)
        assert row.service_s > 0
        if output_tokens is not None:
            assert row.recent_tokens == len(str(prompt_text(body))) // 4 + 2 * output_tokens
            assert row.context_tokens == len(str(prompt_text(body))) // 4 + output_tokens
            assert prompt_tokens is not None


def prompt_text(body: dict[str, Any]) -> str:
    """All text of these small prompts, roles and types included, as the estimate of their length counts it."""
    if "messages" not in body:
        return str(body.get("prompt") or body.get("input"))
    return "".join(v for message in body["messages"] for v in message.values())


async def test_usage_that_nobody_asked_for_is_taken_out_of_a_stream() -> None:
    engine = RecordedEngine()
    async with gateway(engine) as system:
        response = await system.post("/v1/chat/completions", {**CHAT, "stream": True}, {"x-session-id": "p"})
        events = recorded("chat_stream_usage").split(b"\n\n")
        assert response.content.split(b"\n\n") == [e for e in events if b'"choices":[]' not in e]
        assert engine.last_body["stream_options"] == {"include_usage": True}
        row = system.table.row("p")
        metrics = json.loads(next(e for e in events if b'"choices":[]' in e).removeprefix(b"data: "))["metrics"]
        first, rest = metrics["time_to_first_token_ms"], metrics["generation_time_ms"]
        assert row.service_s == pytest.approx((first + rest) / 1000, abs=1e-12)
        assert row.waiting_s == metrics["queue_time_ms"] / 1000


async def test_embeddings_are_calls_of_a_program() -> None:
    engine = RecordedEngine()
    async with gateway(engine, plugin=True) as system:
        body = {"model": "tiny", "input": ["a", "b"], "encoding_format": "float"}
        response = await system.post("/v1/embeddings", body, {"x-session-id": "p"})
        assert response.json() == EMBEDDINGS
        assert engine.last_body == body
        assert system.table.row("p").num_finished == 1


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/tokenize", {"model": "tiny", "prompt": "a b"}, "tokenize"),
        ("/detokenize", {"model": "tiny", "tokens": [1, 2]}, "detokenize"),
        ("/v1/messages/count_tokens", {"model": "tiny", "messages": MESSAGES}, "count_tokens"),
    ],
)
async def test_counting_tokens_opens_no_program(path: str, body: dict[str, Any], name: str) -> None:
    engine = RecordedEngine()
    async with gateway(engine) as system:
        response = await system.post(path, body, {"authorization": "Bearer k"})
        assert (response.status_code, response.content) == (200, recorded(name))
        assert response.headers["content-type"] == "application/json"
        assert engine.last_body == body
        assert engine.last_headers["authorization"] == "Bearer k"
        assert not system.table.rows


async def test_an_engine_s_own_errors_pass_in_its_own_words() -> None:
    async with gateway(RecordedEngine(models=("other",))) as system:
        await system.models_known()
        system.app.state.pool.states["e0"].models = None  # nobody knows yet, so the engine says so itself
        system.app.state.pool.states["e0"].models_asked_s = 1e12
        for path, body, name in (
            ("/v1/messages", ANTHROPIC, "messages_bad_model"),
            ("/v1/chat/completions", CHAT, "chat_bad_model"),
        ):
            response = await system.post(path, body)
            assert (response.status_code, response.content) == (404, recorded(name))


@pytest.mark.parametrize("api", APIS, ids=lambda api: str(api.path))
async def test_errors_of_the_gateway_have_the_shape_of_the_api(api: Any) -> None:
    async with gateway(RecordedEngine(), max_body_bytes=100) as system:
        await system.models_known()
        errors: dict[int, httpx2.Response] = {
            404: await system.post(api.path, {"model": "nope"}),
            400: await system.client.post(api.path, content=b"{"),
            413: await system.client.post(api.path, content=b" " * 101),
            405: await system.client.get(api.path),
        }
        types = {404: "not_found_error", 400: "invalid_request_error", 413: "request_too_large", 405: "invalid_request_error"}
        for status, response in errors.items():
            assert response.status_code == status
            error = response.json()["error"]
            if api.anthropic:
                assert response.json()["type"] == "error"
                assert (error["type"], set(error)) == (types[status], {"type", "message"})
            else:
                assert (error["type"], set(error)) == ("invalid_request_error", {"message", "type", "param", "code"})
        if not api.anthropic:
            assert errors[404].json()["error"] == {
                "message": "the model 'nope' does not exist here; known: tiny",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/chat/completions", {**CHAT, "stream": True}, {"error": {"type": "server_error", "param": None, "code": 502}}),
        ("/v1/completions", {"prompt": "a", "stream": True}, {"error": {"type": "server_error", "param": None, "code": 502}}),
        ("/v1/responses", {**RESPONSES, "stream": True}, {"type": "error", "code": "server_error", "param": None}),
        ("/v1/messages", {**ANTHROPIC, "stream": True}, {"type": "error", "error": {"type": "api_error"}}),
    ],
)
async def test_a_stream_that_breaks_ends_with_the_api_s_own_error_event(
    path: str, body: dict[str, Any], last: dict[str, Any]
) -> None:
    async with gateway(RecordedEngine(breaks_after=2)) as system:
        response = await system.post(path, body, {"x-session-id": "p"})
        *_, event = response.content.removesuffix(b"\n\n").split(b"\n\n")
        assert event.startswith(b"data: " if "error" in last and "type" not in last else b"event: error\ndata: ")
        said = json.loads(event.split(b"data: ")[1])
        inner = said.get("error", said)
        assert "broke off" in inner.pop("message")
        assert said == last
        assert system.table.row("p").num_aborted == 1


async def test_models_are_those_of_all_engines_and_calls_go_where_theirs_is() -> None:
    engines = [RecordedEngine(models=("a", "both")), RecordedEngine(models=("org/b", "both"))]
    async with gateway(*engines, balancer="round_robin") as system:
        await system.models_known()
        listed = (await system.client.get("/v1/models")).json()
        assert [m["id"] for m in listed["data"]] == ["a", "both", "org/b"]
        assert (await system.client.get("/v1/models/org/b")).json() == listed["data"][2]
        assert (await system.client.get("/v1/models/c")).json()["error"]["code"] == "model_not_found"
        for model, number in (("a", 0), ("org/b", 1)):
            for path, body in (("/v1/chat/completions", CHAT), ("/tokenize", {"prompt": "a"}), ("/v1/messages", ANTHROPIC)):
                for _ in range(2):
                    await system.post(path, {**body, "model": model})
                    assert engines[number].last_body["model"] == model
        for _ in range(4):
            assert (await system.post("/v1/chat/completions", {**CHAT, "model": "both"})).status_code == 200
        assert [sum(body["model"] == "both" for _, _, body in e.requests) for e in engines] == [2, 2]


async def test_a_model_whose_engine_is_down_is_unavailable_and_not_unknown() -> None:
    engines = [RecordedEngine(models=("a",)), RecordedEngine(models=("b",))]
    async with gateway(*engines) as system:
        await system.models_known()
        engines[1].healthy = False
        await eventually(lambda: len(system.app.state.pool.healthy()) == 1)
        assert (await system.post("/v1/chat/completions", {**CHAT, "model": "b"})).status_code == 503
        assert (await system.post("/v1/chat/completions", {**CHAT, "model": "c"})).status_code == 404


async def test_a_model_that_an_engine_has_just_loaded_is_found() -> None:
    engine = RecordedEngine()
    async with gateway(engine) as system:
        await system.models_known()
        engine.models = ("tiny", "adapter")
        assert (await system.post("/v1/chat/completions", {**CHAT, "model": "adapter"})).status_code == 200
        before = engine.num_model_lists
        for _ in range(5):
            assert (await system.post("/v1/chat/completions", {**CHAT, "model": "nope"})).status_code == 404
        assert engine.num_model_lists <= before + 1


async def test_lists_behind_a_key_are_read_with_the_clients() -> None:
    engines = [RecordedEngine(models=("a",), api_key="k"), RecordedEngine(models=("b",), api_key="k")]
    async with gateway(*engines) as system:
        for _ in range(3):
            response = await system.post("/v1/chat/completions", {**CHAT, "model": "b"}, {"authorization": "Bearer k"})
            assert response.status_code == 200
        assert (len(engines[0].requests), len(engines[1].requests)) == (0, 3)
        assert (await system.client.get("/v1/models")).status_code == 401


async def test_servers_that_answer_to_any_name_get_any_name() -> None:
    class Llama(RecordedEngine):
        async def list(self, request: Any) -> Any:
            response = await super().list(request)
            return Response(bytes(response.body).replace(b'"vllm"', b'"llamacpp"'), media_type="application/json")

    engine = Llama(models=("file.gguf", "gpt-4o"))
    async with gateway(engine) as system:
        await eventually(lambda: engine.num_model_lists > 0)
        engine.models = ("gpt-4o",)
        assert (await system.post("/v1/chat/completions", {**CHAT, "model": "gpt-4o"})).status_code == 200


async def test_stored_responses_are_found_on_the_engine_that_has_them() -> None:
    engines = [RecordedEngine(), RecordedEngine()]
    async with gateway(*engines) as system:
        made = await system.post("/v1/responses", RESPONSES)
        home = int(made.headers["x-agentix-engine"][1:])
        got = await system.client.get(f"/v1/responses/{RESPONSE_ID}", headers={"authorization": "Bearer k"})
        assert got.content == recorded("responses")
        assert engines[home].last_headers["authorization"] == "Bearer k"
        cancelled = await system.post(f"/v1/responses/{RESPONSE_ID}/cancel", {})
        assert (cancelled.status_code, cancelled.content) == (400, recorded("responses_cancel"))
        assert engines[1 - home].requests == []
        deleted = await system.client.delete(f"/v1/responses/{RESPONSE_ID}")
        assert deleted.status_code == 405  # this engine deletes none, and says so itself
        missing = await system.client.get("/v1/responses/resp_nope")
        assert (missing.status_code, missing.content) == (404, recorded("responses_missing"))
        assert all(e.requests[-1][0] == "/v1/responses/resp_nope" for e in engines)


async def test_a_response_goes_on_where_the_one_before_it_is() -> None:
    engines = [RecordedEngine(), RecordedEngine()]
    async with gateway(*engines, balancer="round_robin") as system:
        first = await system.post("/v1/responses", RESPONSES)
        for _ in range(3):
            after = await system.post("/v1/responses", {**RESPONSES, "previous_response_id": RESPONSE_ID})
            assert after.headers["x-agentix-engine"] == first.headers["x-agentix-engine"]
            assert after.headers["x-agentix-program"] == first.headers["x-agentix-program"]


@pytest.mark.parametrize("rest", ["a/../../metrics", "..%2f..%2fmetrics", "%2e%2e/%2e%2e/metrics", "a/b", ""])
async def test_nothing_else_of_an_engine_is_reached_below_the_responses(rest: str) -> None:
    engine = RecordedEngine()
    async with gateway(engine) as system:
        scope = {"type": "http", "method": "GET", "path": f"/v1/responses/{rest}", "query_string": b"", "headers": []}
        status = await status_of(system, scope)
        assert status in {404, 405}
        assert engine.requests == []


async def status_of(system: System, scope: dict[str, Any]) -> int:
    """The status that the gateway's application answers, reached without a client that tidies the path."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await system.app(scope, receive, send)
    return int(sent[0]["status"])
