"""Whatever engines answer: it passes, or becomes a clear 502, and no call is left over."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentix.gateway.apis import APIS
from asgi_calls import ANSWER, check_error
from gateway_system import CHAT, System, eventually, gateway
from raw_engine import RawEngine

CALLS = [api.path for api in APIS if api.scheduled]
PATIENCE_S = 10.0
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine() -> RawEngine:
    return RawEngine()


@pytest.fixture(scope="module")
def system(runner: asyncio.Runner, engine: RawEngine) -> Iterator[System]:
    stack = AsyncExitStack()

    async def start() -> System:
        await stack.enter_async_context(engine.serving())
        system = await stack.enter_async_context(gateway(extra=(engine.url,), health_period_s=60.0))
        await system.models_known()
        system.client.timeout = httpx2.Timeout(PATIENCE_S)
        return system

    yield runner.run(start())
    runner.run(stack.aclose())


def play(runner: asyncio.Runner, system: System, path: str = CALLS[0], *, stream: bool = False) -> httpx2.Response:
    """One call, which must be answered in full whatever the engine says, and see that all is well afterwards."""

    async def call() -> httpx2.Response:
        body = {**CHAT, "prompt": "hi", "input": "hi", "stream": stream}
        # One program alone opens no circuit breaker: what it fails with may be its own fault.
        response = await system.post(path, body, {"X-Agentix-Program": "p"})
        await eventually(lambda: not system.table.calls)
        return response

    response = runner.run(call())
    system.table.validate()
    if "x-agentix-engine" not in response.headers:
        assert response.status_code in {502, 503}, response.text[:300]
        check_error(path, response.content)
    return response


def head(status: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


TEXT = json.dumps(ANSWER).encode()
GOOD = head(b"200 OK", b"content-type: application/json", b"content-length: %d" % len(TEXT)) + TEXT


def test_a_good_answer_passes(runner: asyncio.Runner, system: System, engine: RawEngine) -> None:
    engine.pieces = [GOOD]
    response = play(runner, system)
    assert (response.status_code, response.content) == (200, TEXT)


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([], 502, id="nothing"),
        pytest.param([b"SSH-2.0-x\r\n"], 502, id="another protocol"),
        pytest.param([b"\0" * 1000], 502, id="zeros"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-le"], 502, id="half a head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000], 502, id="an endless header"),
        pytest.param([head(b"200 OK", b"content-length: 10") + b"123"], 502, id="too short"),
        pytest.param([head(b"200 OK", b"content-length: 3") + b"12345"], 502, id="too long"),
        pytest.param([head(b"200 OK", b"content-length: -1") + b"1"], 502, id="a negative length"),
        pytest.param([head(b"200 OK", b"content-length: 1", b"content-length: 2") + b"12"], 502, id="two lengths"),
        pytest.param([head(b"200 OK", b"transfer-encoding: chunked") + b"zz\r\n12"], 502, id="a chunk of no size"),
        pytest.param([head(b"200 OK", b"transfer-encoding: chunked") + b"5\r\nab"], 502, id="half a chunk"),
        pytest.param([head(b"200 OK", b"transfer-encoding: chunked") + b"2\r\nab\r\n"], 502, id="no last chunk"),
        pytest.param([head(b"200 OK", b"transfer-encoding: what") + b"ab"], 200, id="an unknown transfer"),
        pytest.param([head(b"204 No Content", b"connection: close")], 204, id="204"),
        pytest.param([head(b"204 No Content", b"connection: close") + b"but a body"], 502, id="204 with a body"),
        pytest.param([head(b"304 Not Modified", b"connection: close")], 304, id="304"),
        pytest.param([head(b"302 Found", b"location: http://127.0.0.1:9/", b"content-length: 0")], 302, id="a redirect"),
        pytest.param([head(b"307 Again", b"location: /v1/chat/completions", b"content-length: 0")], 307, id="to itself"),
        pytest.param([head(b"100 Continue") + head(b"103 Early Hints", b"link: x") + GOOD], 200, id="hints first"),
        pytest.param(
            [head(b"101 Switching", b"upgrade: websocket", b"connection: upgrade")], 502, id="another protocol, politely"
        ),
        pytest.param(
            [head(b"200 OK", b"content-encoding: what", b"content-length: 3") + b"abc"], 200, id="an unknown encoding"
        ),
        pytest.param([head(b"500 Oh", b"content-length: 2") + b"no"], 500, id="its own error"),
        pytest.param([head(b"599 Oh", b"content-length: 2") + b"no"], 599, id="an unusual status"),
        pytest.param([head(b"999 Denied", b"content-length: 2") + b"no"], 502, id="no status that HTTP has"),
        pytest.param([head(b"099 Oh", b"content-length: 0")], 502, id="a status below 100"),
        pytest.param([head(b"20 OK", b"content-length: 0")], 502, id="two digits"),
        pytest.param([b"HTTP/0.9 200 OK\r\n\r\nx"], 200, id="an old protocol"),
        pytest.param([head(b"200 OK", b"content-length: 0", b"x-bad: a\x01b")], 200, id="a header with a control character"),
        pytest.param(
            [head(b"200 OK", b"content-length: 0", b"connection: x-agentix-engine")], 200, id="a header to be dropped"
        ),
    ],
)
@pytest.mark.parametrize("path", [CALLS[0], "/v1/messages"])
def test_answers_that_are_hardly_any(
    runner: asyncio.Runner, system: System, engine: RawEngine, path: str, pieces: list[bytes], status: int
) -> None:
    engine.pieces = pieces
    assert play(runner, system, path).status_code == status


leaves: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        10**30,
        10**400,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
        "{",
        [],
        {},
        [None],
        [[]],
        {"a": {}},
    ),
    *(
        [{"index": -1, "delta": []}],
        [{"index": 10**30, "text": 3}],
        [{"message": {"content": [3], "tool_calls": [{"function": 3}]}}],
    ),
    *([{"delta": {"tool_calls": [{"index": True, "id": [], "function": {"name": "f", "arguments": "["}}]}}], [3, "x", None]),
)
fields = (
    *(
        "usage",
        "metrics",
        "choices",
        "id",
        "content",
        "output",
        "response",
        "message",
        "type",
        "index",
        "delta",
        "content_block",
    ),
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens", "item"),
    *("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"),
)
values = st.recursive(
    st.sampled_from(leaves),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(fields), inner, max_size=5),
    max_leaves=10,
)
KINDS = (
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
    "response.completed",
    "response.output_item.done",
)
answers = st.dictionaries(st.sampled_from(fields), values, max_size=6) | st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS), "usage": values, "delta": values, "response": values}
)
texts = (answers | values).map(lambda answer: json.dumps(answer).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CALLS), texts | st.binary(max_size=50))
@example(CALLS[0], b'{"usage": {"prompt_tokens": 1%b}}' % (b"0" * 400))
@example(CALLS[0], b'{"usage": {"prompt_tokens": 1, "completion_tokens": 1%b}}' % (b"0" * 400))
@example(CALLS[0], b'{"metrics": {"queue_time_ms": NaN, "time_to_first_token_ms": 1e400, "generation_time_ms": -1}}')
def test_any_whole_answer_passes(runner: asyncio.Runner, system: System, engine: RawEngine, path: str, text: bytes) -> None:
    engine.pieces = [JSON_HEAD + text]
    response = play(runner, system, path)
    assert (response.status_code, response.content) == (200, text)


lines = st.one_of(
    texts.map(lambda text: b"data: " + text),
    texts.map(lambda text: b"event: x\ndata: " + text),
    st.sampled_from(
        [b"data: [DONE]", b"data:[DONE]", b"data:", b":", b": ping", b"id: 3", b"retry: x", b"event", b"\xef\xbb\xbfdata: {}"]
    ),
    st.binary(max_size=30).filter(lambda line: b"\n\n" not in line and b"\n\r\n" not in line),
)
ends = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\n", b"\r\r", b""])
streams = st.lists(st.tuples(lines, ends), max_size=8).map(lambda events: b"".join(line + end for line, end in events))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CALLS), streams, st.integers(1, 40))
def test_any_stream_passes(
    runner: asyncio.Runner, system: System, engine: RawEngine, path: str, text: bytes, size: int
) -> None:
    """Byte for byte, but for usage that nobody has asked for, and cut wherever it may be."""
    engine.pieces = [STREAM_HEAD, *(text[at : at + size] for at in range(0, len(text), size))]
    response = play(runner, system, path, stream=True)
    assert response.status_code == 200
    if b"usage" not in text:
        assert response.content == text


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CALLS),
    streams,
    st.sampled_from([b"", b"5\r\nab", b"zz\r\n", b"-1\r\n", b"0\r\n", b"ffffffffffffffffff\r\nx"]),
)
def test_a_stream_that_breaks_off_ends_in_good_order(
    runner: asyncio.Runner, system: System, engine: RawEngine, path: str, text: bytes, fault: bytes
) -> None:
    """Its client reads an error as the last event, unless the last event had passed."""
    text = text.replace(b"usage", b"usages")
    engine.pieces = [CHUNKED_HEAD, b"%x\r\n%b\r\n" % (len(text), text) if text else b"", fault]
    response = play(runner, system, path, stream=True)
    if fault.startswith(b"0"):  # the end that HTTP wants is nearly there
        return
    assert any(end in response.content for end in (b"broke off", b"[DONE]", b"message_stop", b"response.completed"))


@pytest.mark.parametrize("end", [b"\n\n", b""])
def test_a_line_without_end_costs_no_more_than_its_length(
    runner: asyncio.Runner, system: System, engine: RawEngine, end: bytes
) -> None:
    """16 MiB in one event: were all of it looked at again with every piece, it would take minutes."""
    text = b'data: {"choices": [{"delta": {"content": "' + b"y" * 2**24 + b'"}}]}' + end
    engine.pieces = [STREAM_HEAD, text]
    assert play(runner, system, stream=True).content == text


def test_compressed_answers_pass_as_they_are(runner: asyncio.Runner, system: System, engine: RawEngine) -> None:
    """Although the gateway asks for none."""
    packed = gzip.compress(TEXT)
    engine.pieces = [head(b"200 OK", b"content-encoding: gzip", b"content-length: %d" % len(packed)) + packed]
    assert play(runner, system).json() == ANSWER


@pytest.mark.parametrize(
    "models",
    [
        b'{"data": [{"id": "fake", "created": NaN}]}',
        b'{"data": [{"id": "fake", "x": "\\ud800"}, {"id": "\\udfff"}]}',
        b'{"data": [{"id": "fake", "x": 1%b}]}' % (b"0" * 400),
        b'{"data": [3, {"id": 3}, {"id": "fake"}]}',
    ],
)
def test_odd_lists_of_models_are_shown(runner: asyncio.Runner, models: bytes) -> None:
    async def ask() -> Any:
        raw = RawEngine(models=JSON_HEAD + models)
        async with raw.serving(), gateway(extra=(raw.url,), health_period_s=60.0) as system:
            await system.models_known()
            unknown = await system.chat(model="unknown")
            return await system.client.get("/v1/models"), unknown

    listed, unknown = runner.run(ask())
    assert listed.status_code == 200
    assert "fake" in [model["id"] for model in listed.json()["data"]]
    assert unknown.status_code == 404
    check_error("/v1/chat/completions", unknown.content)
