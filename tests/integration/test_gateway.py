"""The gateway over real sockets, in front of a fake engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

from agentix.core import ConfigError
from agentix.core.balancers import BALANCERS
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from asgi_calls import ask
from fake_engine import METRICS, USAGE, FakeEngine, served, sse
from gateway_system import CHAT, System, eventually, gateway

SERVICE_S = (METRICS["time_to_first_token_ms"] + METRICS["generation_time_ms"]) / 1000
WAITING_S = METRICS["queue_time_ms"] / 1000


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def start(*engines: FakeEngine, plugin: bool = True, **config: Any) -> System:
            return await stack.enter_async_context(gateway(*engines, plugin=plugin, **config))

        yield start


async def leave(call: asyncio.Task[Any]) -> None:
    """Disconnect the client that makes `call`."""
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


async def test_an_answer_passes_unchanged_and_is_accounted(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine())
    response = await system.chat({"X-Agentix-Program": "p"})
    assert response.json()["choices"][0]["message"]["content"] == "héllo"
    assert response.headers["x-engine"] == "fake"
    assert response.headers["x-agentix-program"] == "p"
    assert response.headers["x-agentix-engine"] == "e0"
    row = await system.program("p")
    assert (row["service_s"], row["waiting_s"]) == (SERVICE_S, WAITING_S)
    assert row["engine_ids"] == ["e0"]
    assert row["num_finished"] == 1
    assert row["threads"] == {}


@pytest.mark.parametrize("asked", [False, True])
async def test_a_stream_passes_unchanged_but_for_usage_nobody_asked_for(start: Callable[..., Any], asked: bool) -> None:
    system = await start(FakeEngine())
    options = {"stream_options": {"include_usage": True}} if asked else {}
    response = await system.chat({"X-Agentix-Program": "p"}, stream=True, **options)
    tokens = b"".join(sse({"choices": [{"index": 0, "delta": {"content": t}}]}) for t in ("hé", "ll", "o"))
    usage = sse({"choices": [], "usage": USAGE, "metrics": METRICS}) if asked else b""
    assert response.content == tokens + usage + b"data: [DONE]\n\n"
    row = await system.program("p")
    assert (row["service_s"], row["waiting_s"], row["num_finished"]) == (SERVICE_S, WAITING_S, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_without_figures_counts_the_whole_time_as_service(start: Callable[..., Any], stream: bool) -> None:
    system = await start(FakeEngine(mode="plain"), plugin=False)
    await system.chat({"X-Agentix-Program": "p"}, stream=stream)
    row = await system.program("p")
    assert row["service_s"] > 0
    assert row["waiting_s"] == 0


async def test_identity_precedence_and_what_the_engine_gets(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine)
    both = {"X-Agentix-Program": "own", "X-Session-ID": "session", "Authorization": "Bearer secret"}
    first = await system.chat(both, session_id="body", user="user")
    assert first.headers["x-agentix-program"] == "own"
    assert engine.last_headers["x-session-id"] == "own"
    assert engine.last_body["session_id"] == "own"
    assert engine.last_headers["authorization"] == "Bearer secret"
    assert engine.last_body["vllm_xargs"]["agentix_service_s"] == 0
    assert (await system.chat({"X-Session-ID": "session"}, user="user")).headers["x-agentix-program"] == "session"
    assert (await system.chat(session_id="body", user="user")).headers["x-agentix-program"] == "body"
    assert (await system.chat(user="user")).headers["x-agentix-program"] == "user"
    await system.chat({"X-Agentix-Program": "own"})
    assert engine.last_body["vllm_xargs"] == {
        "agentix_service_s": SERVICE_S,
        "agentix_waiting_s": WAITING_S,
        "agentix_critical_path_s": SERVICE_S,
        "agentix_path_s": SERVICE_S,
    }
    await system.chat({"X-Agentix-Program": "own", "X-Dynamo-Session-Final": "true"})
    assert engine.last_body["vllm_xargs"]["agentix_last_call"] is True


async def test_an_anonymous_call_is_a_program_of_its_own_until_it_is_forgotten(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine, program_idle_s=0.2)
    await system.chat()
    await system.chat()
    assert "x-session-id" not in engine.last_headers
    rows = (await system.client.get("/v1/programs")).json()["data"]
    assert [(row["id"].startswith("anonymous-"), row["num_finished"]) for row in rows] == [(True, 1), (True, 1)]
    await eventually(lambda: not system.table.rows)


async def test_a_foreign_engine_gets_nothing_it_might_refuse(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine, plugin=False)
    await system.chat({"X-Agentix-Program": "p"}, vllm_xargs={"mine": 1})
    assert engine.last_body == {**CHAT, "vllm_xargs": {"mine": 1}}


async def test_what_is_not_ascii_passes(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine)
    messages = [{"role": "user", "content": "half a pair: \ud800"}]
    content = json.dumps({"user": "日本", "messages": messages})
    response = await system.client.post("/v1/chat/completions", content=content, headers=[(b"x-mine", "é".encode())])
    assert response.status_code == 200
    assert dict(response.headers.raw)[b"x-agentix-program"] == "日本".encode()
    assert engine.last_body["messages"] == messages
    assert engine.last_headers["x-mine"].encode("latin-1") == "é".encode()
    assert (await system.program("日本"))["num_finished"] == 1


async def test_query_and_repeated_headers_pass_unchanged(start: Callable[..., Any]) -> None:
    paths: list[Any] = []

    async def engine(scope: Any, receive: Any, send: Any) -> None:
        paths.append((scope["path"], scope["query_string"], [v for k, v in scope["headers"] if k == b"x-mine"]))
        response = PlainTextResponse("ok")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        await response(scope, receive, send)

    async with served(engine) as url:
        system = await start(extra=(url,), health_period_s=60, allowed_hosts=("*",))
        headers = [("X-Mine", "1"), ("X-Mine", "2"), ("Host", "x/admin?")]
        response = await system.client.post("/v1/completions?a=1&a=%202", headers=headers, json={})
    paths = [p for p in paths if p[0] not in {"/health", "/v1/models"}]
    assert paths[-1] == ("/v1/completions", b"a=1&a=%202", [b"1", b"2"])
    assert [c.split(";")[0] for c in response.headers.get_list("set-cookie")] == ["a=1", "b=2"]


async def test_a_client_never_gets_another_one_s_cookies(start: Callable[..., Any]) -> None:
    engine = FakeEngine(answer=JSONResponse({}, headers={"set-cookie": "session=secret"}))
    system = await start(engine)
    await system.chat()
    system.client.cookies.clear()
    await system.chat()
    assert "cookie" not in engine.last_headers
    await system.chat({"Cookie": "mine=1"})
    assert engine.last_headers["cookie"] == "mine=1"


async def test_parents_give_exact_paths(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine)

    async def call(call_id: str, parents: str) -> float:
        await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": call_id, "X-Agentix-Parent": parents})
        path_s = engine.last_body["vllm_xargs"]["agentix_path_s"]
        assert isinstance(path_s, float)
        return path_s

    assert await call("root", "") == 0
    assert await call("a", "root") == SERVICE_S
    assert await call("b", "root") == SERVICE_S
    assert await call("join", "a, b") == 2 * SERVICE_S


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_cancels_its_call_in_the_engine(start: Callable[..., Any], stream: bool) -> None:
    engine = FakeEngine(mode="hang")
    system = await start(engine)
    call = asyncio.create_task(system.chat({"X-Agentix-Program": "p"}, stream=stream))
    await eventually(lambda: engine.num_active == 1)
    await leave(call)
    await eventually(lambda: engine.num_active == 0)
    await eventually(lambda: not system.table.calls)
    assert engine.num_cancelled == 1
    row = await system.program("p")
    assert (row["num_finished"], row["num_aborted"]) == (0, 1)


async def test_a_client_that_leaves_after_the_last_event_has_a_finished_call(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine())
    async with system.client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True, "user": "p"}) as answer:
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                break
    await eventually(lambda: not system.table.calls)
    assert (await system.program("p"))["num_finished"] == 1


async def test_a_stream_that_breaks_ends_with_an_error_event(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine(mode="break"))
    response = await system.chat({"X-Agentix-Program": "p"}, stream=True)
    last = response.content.strip().split(b"\n\n")[-1]
    assert b"broke off" in last
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == 502
    assert (await system.program("p"))["num_aborted"] == 1


async def test_a_stream_that_breaks_after_its_last_event_is_complete(start: Callable[..., Any]) -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"data: [DONE]\n\n"
        await asyncio.sleep(0.05)
        raise ConnectionError("the engine dies here")

    system = await start(FakeEngine(answer=StreamingResponse(events(), media_type="text/event-stream")))
    response = await system.chat({"X-Agentix-Program": "p"}, stream=True)
    assert response.content == b"data: [DONE]\n\n"
    assert (await system.program("p"))["num_finished"] == 1


async def test_a_fault_of_our_own_has_openai_s_shape_and_ends_the_call(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError

    system = await start(FakeEngine())
    monkeypatch.setattr("agentix.gateway.relay.upstream_headers", fail)
    response = await system.chat()
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    assert not system.table.calls


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/programs"])
async def test_a_client_that_leaves_while_it_sends_is_no_error(start: Callable[..., Any], path: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None: ...

    system = await start(FakeEngine())
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    await system.app(scope, receive, send)  # raises nothing that a server would log
    assert not system.table.calls


@pytest.mark.parametrize("mode", ["ok", "refuse"])
async def test_a_client_has_its_answer_before_the_books_are_closed_and_whoever_asks_then_after_that(
    start: Callable[..., Any], mode: str
) -> None:
    system = await start(FakeEngine(mode=mode))
    headers, seen = [(b"x-agentix-program", b"p")], []

    async def ask_next() -> None:
        seen.append(dict(system.table.row("p").calls))

    async def at_end() -> None:
        assert system.table.row("p").calls
        asyncio.get_running_loop().call_soon(lambda: waiting.append(asyncio.create_task(ask_next())))

    waiting: list[asyncio.Task[None]] = []
    answer = await ask(system.app, "POST", "/v1/chat/completions", [json.dumps(CHAT).encode()], headers=headers, at_end=at_end)
    assert answer.complete
    await asyncio.gather(*waiting)
    assert seen == [{}]
    row = system.table.row("p")
    assert (row.num_finished, row.num_aborted) == ((1, 0) if mode == "ok" else (0, 1))


async def test_the_books_of_a_client_that_does_not_read_its_answer_are_closed_too(start: Callable[..., Any]) -> None:
    system, read = await start(FakeEngine()), asyncio.Event()

    async def at_end() -> None:
        await read.wait()

    headers = [(b"x-agentix-program", b"p")]
    call = ask(system.app, "POST", "/v1/chat/completions", [json.dumps(CHAT).encode()], headers=headers, at_end=at_end)
    asking = asyncio.create_task(call)
    await eventually(lambda: "p" in system.table.rows and system.table.row("p").num_finished == 1)
    assert not asking.done()
    read.set()
    assert (await asking).complete


async def test_an_engine_s_own_error_passes_and_costs_nothing(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine(mode="refuse"))
    response = await system.chat({"X-Agentix-Program": "p"})
    assert (response.status_code, response.json()) == (400, {"error": {"message": "max_tokens is too large"}})
    row = await system.program("p")
    assert (row["service_s"], row["num_aborted"]) == (0, 1)


async def test_an_unreachable_engine_is_skipped_and_programs_move(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine(), extra=("http://127.0.0.1:9",), health_period_s=60, balancer="least_used")
    response = await system.chat({"X-Agentix-Program": "p"})
    assert response.status_code == 200
    assert response.headers["x-agentix-engine"] == "e1"
    health = await system.client.get("/health")
    assert (health.status_code, health.json()["status"]) == (200, "degraded")


async def test_without_any_engine_calls_are_refused_at_once(start: Callable[..., Any]) -> None:
    system = await start(extra=("http://127.0.0.1:9",))
    response = await system.chat({"X-Agentix-Program": "p"})
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["error"]["type"] == "overloaded_error"
    assert system.table.calls == {}
    assert (await system.client.get("/v1/models")).status_code == 503
    await eventually(lambda: not system.app.state.pool.healthy())
    assert (await system.client.get("/health")).status_code == 503


async def test_an_engine_that_recovers_is_used_again(start: Callable[..., Any]) -> None:
    engine = FakeEngine(healthy=False)
    system = await start(engine)
    await eventually(lambda: not system.app.state.pool.healthy())
    assert (await system.chat()).status_code == 503
    engine.healthy = True
    await eventually(lambda: bool(system.app.state.pool.healthy()))
    assert (await system.chat()).status_code == 200


async def test_calls_spread_over_engines(start: Callable[..., Any]) -> None:
    engines = [FakeEngine(), FakeEngine()]
    system = await start(*engines, balancer="round_robin")
    for _ in range(4):
        await system.chat()
    assert [len(e.requests) for e in engines] == [2, 2]


async def test_a_long_program_stays_on_its_engine(start: Callable[..., Any]) -> None:
    engines = [FakeEngine(), FakeEngine()]
    system = await start(*engines)
    long = [{"role": "user", "content": "word " * 4000}]
    for _ in range(3):
        await system.chat({"X-Agentix-Program": "p"}, messages=long)
    assert sorted(len(e.requests) for e in engines) == [0, 3]
    assert (await system.program("p"))["home_engine_id"] is not None


async def test_two_programs_may_number_their_calls_alike(start: Callable[..., Any]) -> None:
    engine = FakeEngine(mode="hang")
    system = await start(engine)
    first = asyncio.create_task(system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "1"}))
    await eventually(lambda: engine.num_active == 1)
    assert (await system.program("p"))["threads"][""][0]["call_id"] == "1"
    engine.mode = "ok"
    assert (await system.chat({"X-Agentix-Program": "q", "X-Agentix-Call": "1"})).headers["x-agentix-call"] == "1"
    await system.chat({"X-Agentix-Program": "q", "X-Agentix-Call": "2", "X-Agentix-Parent": "1"})
    assert engine.last_body["vllm_xargs"]["agentix_path_s"] == SERVICE_S
    await leave(first)
    await eventually(lambda: not system.table.calls)


async def test_a_silent_engine_is_not_given_up_at_once(start: Callable[..., Any]) -> None:
    engine = FakeEngine()
    system = await start(engine, health_period_s=60)
    pool = system.app.state.pool
    state = pool.states["e0"]
    pool.client = httpx2.AsyncClient(transport=httpx2.MockTransport(_silence))
    for _ in range(2):
        await pool._check(state)
        assert pool.healthy()
    await pool._check(state)
    assert not pool.healthy()


def _silence(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("nothing came", request=request)


async def test_a_repeated_call_id_is_served_under_another(start: Callable[..., Any]) -> None:
    engine = FakeEngine(mode="hang")
    system = await start(engine)
    headers = {"X-Agentix-Program": "p", "X-Agentix-Call": "c"}
    first = asyncio.create_task(system.chat(headers))
    await eventually(lambda: engine.num_active == 1)
    engine.mode = "ok"
    assert (await system.chat(headers)).headers["x-agentix-call"] == "c#2"
    await leave(first)
    await eventually(lambda: not system.table.calls)


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{not json", 400, "not valid JSON"),
        (b"[1]", 400, "must be a JSON object"),
        (b"\xff\xfe", 400, "not valid JSON"),
        (b'{"x":' + b"[" * 900, 400, "not valid JSON"),
        (b'{"x":' + b"[" * 1900, 400, "nested too deeply"),
        (b'{"x": "' + b"y" * 3000 + b'"}', 413, "larger than 2000 bytes"),
    ],
)
async def test_bad_bodies_never_reach_an_engine(start: Callable[..., Any], content: bytes, status: int, message: str) -> None:
    engine = FakeEngine()
    system = await start(engine, max_body_bytes=2000)
    for path in ("/v1/chat/completions", "/v1/programs"):
        response = await system.client.post(path, content=content)
        assert response.status_code == status
        assert message in response.json()["error"]["message"]
    assert engine.requests == []


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
async def test_a_number_that_json_cannot_say_never_reaches_an_engine(start: Callable[..., Any], number: str) -> None:
    engine = FakeEngine()
    system = await start(engine)
    body = b'{"messages": [], "temperature": %s}' % number.encode()
    response = await system.client.post("/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert "not finite" in response.json()["error"]["message"]
    assert engine.requests == []
    assert not system.table.calls


@pytest.mark.parametrize("header", ["X-Agentix-Program", "X-Agentix-Call", "X-Agentix-Parent", "X-Agentix-Thread"])
async def test_a_bad_id_is_refused(start: Callable[..., Any], header: str) -> None:
    system = await start(FakeEngine())
    response = await system.chat({header: "x" * 257})
    assert response.status_code == 400
    assert "256" in response.json()["error"]["message"]


async def test_sessions_are_opened_once_and_closed_once(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine())
    client = system.client
    opened = await client.post("/v1/programs", json={"program_id": "p/1", "class": "coder"})
    assert (opened.status_code, opened.json()["class"]) == (201, "coder")
    assert (await client.post("/v1/programs", json={"program_id": "p/1"})).status_code == 200
    await system.chat({"X-Agentix-Program": "p/1"})
    assert [p["id"] for p in (await client.get("/v1/programs")).json()["data"]] == ["p/1"]
    closed = await client.delete("/v1/programs/p/1")
    assert (closed.status_code, closed.json()["num_finished"]) == (200, 1)
    assert (await client.delete("/v1/programs/p/1")).status_code == 404
    made_up = await client.post("/v1/programs")
    assert (made_up.status_code, made_up.json()["id"].startswith("program-")) == (201, True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"class": "\ud800"}, "printable"),
        ({"name": "x"}, "known: class, program_id"),
        ({"program_id": 3}, "must be strings"),
        ([], "JSON object"),
    ],
)
async def test_a_bad_session_start_is_refused(start: Callable[..., Any], body: Any, message: str) -> None:
    system = await start(FakeEngine())
    response = await system.client.post("/v1/programs", content=json.dumps(body))
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


async def test_idle_programs_are_ended(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine(), program_idle_s=0.1)
    await system.chat({"X-Agentix-Program": "p"})
    await eventually(lambda: not system.table.rows)


async def test_an_engine_that_lists_no_models_hides_no_other(start: Callable[..., Any]) -> None:
    async with served(PlainTextResponse("ok")) as url:
        system = await start(FakeEngine(), extra=(url,))
        assert [m["id"] for m in (await system.client.get("/v1/models")).json()["data"]] == ["fake"]


async def test_models_and_unknown_paths(start: Callable[..., Any]) -> None:
    system = await start(FakeEngine(), FakeEngine())
    assert [m["id"] for m in (await system.client.get("/v1/models")).json()["data"]] == ["fake"]
    unknown = await system.client.post("/v1/nothing")
    assert unknown.status_code == 404
    assert "/v1/nothing" in unknown.json()["error"]["message"]
    assert (await system.client.get("/v1/chat/completions")).status_code == 405


def test_bad_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="at least one engine"):
        GatewayConfig(engines=())
    with pytest.raises(ConfigError, match="must start with http"):
        EngineTarget(engine_id="e", url="localhost:8000")
    with pytest.raises(ConfigError, match="Invalid port"):
        EngineTarget(engine_id="e", url="http://host:port")
    with pytest.raises(ConfigError, match="no credentials"):
        EngineTarget(engine_id="e", url="http://user:secret@host")
    twice = (EngineTarget(engine_id="e", url="http://a"), EngineTarget(engine_id="e", url="http://b"))
    with pytest.raises(ConfigError, match="ids must differ"):
        GatewayConfig(engines=twice)
    assert EngineTarget(engine_id="e", url="http://a:1/v1/").url == "http://a:1"
    with pytest.raises(ConfigError, match=f"unknown balancer 'x'; known: {', '.join(BALANCERS.names)}"):
        create_app(GatewayConfig(engines=twice[:1], balancer="x"))
