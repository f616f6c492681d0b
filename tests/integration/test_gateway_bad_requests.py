"""Whatever clients send: an answer, in the right shape, without a failure of the gateway and with nothing left over."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from agentix.gateway.apis import APIS
from agentix.gateway.identity.conventions import (
    FINAL_SOURCES,
    PARENT_SESSION_SOURCES,
    PARENT_THREAD_SOURCES,
    PROGRAM_SOURCES,
    THREAD_SOURCES,
)
from agentix.wire import CALL_HEADER, PARENT_HEADER, PRIORITY_HEADER, PROGRAM_HEADER, REQUEST_ID_HEADER, THREAD_HEADER
from asgi_calls import Answer, TolerantEngine, ask, check
from gateway_system import System, gateway

CALLS = [api.path for api in APIS]
BODY = {
    "model": "fake",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "go"},
    ],
    "prompt": "hi",
    "input": "hi",
    "max_tokens": 3,
}
SOURCES = (*PROGRAM_SOURCES, *THREAD_SOURCES, *PARENT_SESSION_SOURCES, *PARENT_THREAD_SOURCES, *FINAL_SOURCES)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def system(runner: asyncio.Runner) -> Iterator[System]:
    """One gateway for all examples: what one of them leaves behind must not trouble the next."""
    context = gateway(TolerantEngine(), health_period_s=60.0, max_body_bytes=200_000)
    system = runner.run(context.__aenter__())
    runner.run(system.models_known())
    yield system
    runner.run(context.__aexit__(None, None, None))


def post(runner: asyncio.Runner, system: System, path: str, *pieces: bytes, **options: Any) -> Answer:
    """Post a body, and see that all is well afterwards."""
    answer = runner.run(ask(system.app, "POST", path, pieces, **options))
    if not options.get("leaves"):
        assert answer.complete
        check(system.app, path, answer)
    system.table.validate()
    assert not system.table.calls
    return answer


def nested(depth: int, *, of: str = "[", close: str = "]", at: str = "") -> bytes:
    """Brackets in brackets, as the value of a field."""
    return b'{"%b": %b%b}' % (at.encode(), of.encode() * depth, close.encode() * depth)


WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**30, 10**400, 1e308, float("nan"), float("inf"), "", " ", "x" * 300, "\ud800", "\0"),
    *([], [1], [[[]]], [None], {}, {"a": {"b": {}}}, [{"type": "text"}], [{"role": 3, "content": {"text": []}}]),
    *([{"type": "tool_use", "input": "{"}], {"id": {"id": []}}, ["\ud800"], {"session_id": 3, "id": None}),
)


def wrong_types() -> Iterator[bytes]:
    """Every wrong value at every field that the gateway reads, and at some deeper ones."""
    fields: list[tuple[str, ...]] = [
        (name,) for name in (*BODY, "stream", "stream_options", "vllm_xargs", "nvext", "metadata", "conversation")
    ]
    fields += [
        (name,) for name in ("system", "instructions", "tools", "user", "previous_response_id", "priority", "n", "class")
    ]
    fields += [source.field for source in SOURCES if source.field]
    fields += [("stream_options", "include_usage"), ("nvext", "agent_hints", "priority"), ("messages", "0", "content")]
    for path in dict.fromkeys(fields):
        for value in WRONG:
            body: dict[str, Any] = {**BODY, "stream": len(str(value)) % 2 == 0}
            inner = body
            for key in path[:-1]:
                inner[key] = {}
                inner = inner[key]
            inner[path[-1]] = value
            yield json.dumps(body).encode()


def broken_texts() -> Iterator[bytes]:
    """What is no JSON, or JSON that few would write."""
    text = json.dumps(BODY).encode()
    yield from (text[:length] for length in range(len(text)))
    yield from (text[:at] + bytes([byte]) + text[at + 1 :] for at in range(0, len(text), 3) for byte in (0x00, 0x80, 0xFF))
    for depth in (1, 100, 500, *range(880, 1000, 6), 2000, 50_000):
        yield from (nested(depth, at=at) for at in ("x", "messages", "model", "user", "vllm_xargs"))
        yield nested(depth, of='{"a":', close="}", at="vllm_xargs")[:-1].replace(b'{"a":}', b'{"a":1}') + b"}"
        yield b"[" * depth
    yield from (
        b'{"max_tokens": %b}' % number for number in (b"NaN", b"-Infinity", b"1e999", b"9" * 4000, b"9" * 5000, b"-", b"01")
    )
    yield from (b'{"user": "a", "user": %b}' % value for value in (b"3", b'"b"', b"{}", b"[]"))
    yield from (text.decode().encode(encoding) for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7"))
    yield from (
        b'{"user": "%b"}' % half for half in (rb"\ud800", rb"\udfff\ud800", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80")
    )
    yield from (
        b"",
        b" ",
        b"null",
        b"true",
        b"3",
        b'"x"',
        b"[]",
        b"{}",
        b"\xef\xbb\xbf",
        b"a=b&c=d",
        b"{" * 100,
        b'{"a":1}{"a":2}',
    )
    yield b'{"x": "%b"}' % (b"y" * 300_000)


def test_over_a_thousand_malformed_bodies(runner: asyncio.Runner, system: System) -> None:
    paths = [*CALLS, "/v1/programs", "/programs/release"]
    bodies = [*wrong_types(), *broken_texts()]
    assert len(bodies) >= 1000
    for number, body in enumerate(bodies):
        post(runner, system, paths[number % len(paths)], body)
    assert post(runner, system, CALLS[0], json.dumps(BODY).encode()).status == 200  # it still serves


@pytest.mark.parametrize("path", CALLS)
def test_encodings_and_types_that_are_not_understood(runner: asyncio.Runner, system: System, path: str) -> None:
    text = json.dumps(BODY).encode()
    for encoding, body in (
        (b"gzip", gzip.compress(text)),
        (b"deflate", zlib.compress(text)),
        (b"br", b"\x0b\x02\x80"),
        (b"gzip", b""),
    ):
        answer = post(runner, system, path, body, headers=[(b"content-encoding", encoding)])
        assert answer.status == 400
    for kind in (b"text/plain", b"multipart/form-data", b"application/json; charset=utf-16", b"", b"\xff/\xff"):
        assert post(runner, system, path, text, headers=[(b"content-type", kind)]).status == 200


@pytest.mark.parametrize("path", [*CALLS, "/v1/programs"])
def test_bodies_that_come_in_pieces_and_break_off(runner: asyncio.Runner, system: System, path: str) -> None:
    text = b"{}" if path == "/v1/programs" else json.dumps(BODY).encode()
    pieces = [text[at : at + 1] for at in range(len(text))]
    assert post(runner, system, path, *pieces).status in {200, 201}
    for length in (0, 1, 2, len(text) - 1):
        answer = post(runner, system, path, *pieces[:length], b"", leaves=True)
        assert (answer.status, answer.body) == (0, b"") or answer.status >= 400


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", "x" * 300, "{", "fake"])
)
keys = st.sampled_from(
    sorted({key for source in SOURCES for key in source.field} | BODY.keys() | {"stream", "content", "type"})
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=10
)

# What an HTTP server lets through in the value of a header (RFC 9110, section 5.5): no controls but tabs, no spaces around it.
_LEGAL = bytes([0x09, *range(0x20, 0x7F), *range(0x80, 0x100)])
raw_values = st.lists(st.sampled_from(_LEGAL), max_size=40).map(bytes)
likely_values = st.sampled_from(
    [
        *(
            "p",
            "a/b",
            "p,q",
            ",,",
            "é",
            "日本",
            "x" * 256,
            "x" * 257,
            "true",
            "-1",
            "99999999999999999999",
            "nan",
            "{",
            "[]",
            "a;b=c",
        ),
        *(
            "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
            "00-" + "0" * 32 + "-" + "0" * 16 + "-00",
            "00-zz-zz-zz",
            "ff-" + "1" * 52,
        ),
        *(
            "session.id=s",
            "gen_ai.conversation.id=c;p=1,session.id",
            "=",
            "a=b=c,d",
            "close, x-agentix-program",
            "100-continue",
        ),
        *("chunked", "gzip, identity", "bytes=0-1", 'W/"x"', "Bearer x", "Basic \u00ff", "application/json", "2023-06-01"),
    ]
).map(str.encode)
header_values = (raw_values | likely_values).map(lambda value: value.strip(b" \t"))
header_names = st.sampled_from(
    sorted(
        {source.header for source in SOURCES if source.header}
        | {PROGRAM_HEADER, THREAD_HEADER, CALL_HEADER, PARENT_HEADER, PRIORITY_HEADER, REQUEST_ID_HEADER}
        | {
            "baggage",
            "traceparent",
            "tracestate",
            "authorization",
            "x-api-key",
            "cookie",
            "connection",
            "te",
            "expect",
            "range",
        }
        | {
            "content-type",
            "accept-encoding",
            "accept",
            "upgrade",
            "via",
            "x-agentix-priority",
            "x-agentix-engine",
            "keep-alive",
        }
    )
).map(str.encode)
raw_headers = st.lists(st.tuples(header_names, header_values), max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CALLS), st.dictionaries(keys, values, max_size=6), raw_headers)
@example(CALLS[0], {}, [(b"x-agentix-parent", b",,")])
@example(CALLS[0], {"stream": True}, [(b"x-agentix-call", b"\xe9"), (b"x-agentix-program", b"\xff")])
def test_any_body_with_any_headers(
    runner: asyncio.Runner, system: System, path: str, body: dict[str, Any], headers: list[tuple[bytes, bytes]]
) -> None:
    post(runner, system, path, json.dumps({"model": "fake", **body}).encode(), headers=headers)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=20) | st.sampled_from(
    ["..", "//", "%", "resp_1", "cancel", "e0"]
)
queries = st.lists(
    st.tuples(
        st.sampled_from(["limit", "after", "class", "thread", "x"]),
        st.sampled_from([b"", b"nan:", b"inf:p", b"0:", b"-1", b"1001"]),
    )
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_route_by_any_method(runner: asyncio.Runner, system: System, data: st.DataObject) -> None:
    routes = sorted(route.path_format for route in system.app.routes if isinstance(route, Route))
    path = data.draw(st.sampled_from(routes))
    while "{" in path:
        path = path[: path.index("{")] + data.draw(texts) + path[path.index("}") + 1 :]
    method = data.draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]))
    body = data.draw(st.sampled_from([b"", b"{}", b"[]", b"{", b"\xff", b'{"program_id": "p"}', b'{"class": "\\ud800"}']))
    query = b"&".join(name.encode() + b"=" + value for name, value in data.draw(queries))
    headers = data.draw(raw_headers)
    answer = runner.run(ask(system.app, method, path, [body], query=query, headers=headers, patience_s=1.0))
    if method != "HEAD":
        check(system.app, path, answer, allowed=(503,))


def test_a_query_that_is_too_long_for_an_engine_s_address(runner: asyncio.Runner, system: System) -> None:
    for path in CALLS:
        answer = post(runner, system, path, json.dumps(BODY).encode(), query=b"x=" + b"y" * 70_000)
        assert answer.status in {400, 414}
