"""The gateway's pure parts: identity, accounts, what goes upstream, names on the wire."""

from __future__ import annotations

import itertools
import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.events import Attained
from agentix.gateway.accounting import Account, parse_json, read_account
from agentix.gateway.apis import APIS
from agentix.gateway.config import EngineTarget
from agentix.gateway.events import EventStream
from agentix.gateway.identity import Identity
from agentix.gateway.prompt_length import PromptLength, tokens_by_rule
from agentix.gateway.upstream import client_headers, upstream_headers
from agentix.wire import attained_from_xargs, attained_to_xargs
from fake_engine import METRICS, USAGE, sse

CHAT = APIS[0]
ENGINE = EngineTarget(engine_id="e0", url="http://a")
ACCOUNT = Account(service_s=2.0, prefill_s=0.5, waiting_s=0.25, prompt_tokens=7, output_tokens=3)
USAGE_EVENT = sse({"choices": [], "usage": USAGE, "metrics": METRICS})
STREAM = sse({"choices": [{"delta": {"content": 'a\n\n"usage": {'}}]}) + USAGE_EVENT + b"data: [DONE]\n\n"


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.booleans())
def test_a_stream_is_read_the_same_however_it_is_cut(cuts: list[int], keep: bool) -> None:
    stream = EventStream(CHAT, keep_usage=keep)
    edges = [0, *sorted(cuts), len(STREAM)]
    passed = b"".join(e for a, b in itertools.pairwise(edges) for e in stream.feed(STREAM[a:b])) + stream.close()
    assert passed == (STREAM if keep else STREAM.replace(USAGE_EVENT, b""))
    assert stream.account == ACCOUNT
    assert stream.done


def test_events_with_carriage_returns_and_without_a_last_blank_line() -> None:
    stream = EventStream(CHAT, keep_usage=False)
    crlf = USAGE_EVENT.replace(b"\n", b"\r\n")
    assert list(stream.feed(b"data: {}\r\n\r\n" + crlf + b"data: tail")) == [b"data: {}\r\n\r\n"]
    assert stream.close() == b"data: tail"
    assert stream.account == ACCOUNT
    assert not stream.done


@given(st.binary(max_size=200))
def test_bytes_that_are_not_events_pass_untouched(data: bytes) -> None:
    stream = EventStream(CHAT, keep_usage=False)
    assert b"".join(stream.feed(data)) + stream.close() == data


@pytest.mark.parametrize("event", [b'data: [{"usage": {}}]\n\n', b'data: {"usage": {' + b'"x":{' * 100_000 + b"\n\n"])
def test_events_that_only_look_like_usage_pass(event: bytes) -> None:
    assert list(EventStream(CHAT, keep_usage=False).feed(event)) == [event]


def test_a_large_event_in_small_pieces_takes_no_quadratic_search() -> None:
    stream, piece = EventStream(CHAT, keep_usage=False), b"x" * 1448
    began = time.perf_counter()
    for _ in range(700):
        assert list(stream.feed(piece)) == []
    assert time.perf_counter() - began < 2  # 0.1 s; searched from its start each time, 9 s


def test_usage_beside_a_choice_is_never_left_out() -> None:
    event = sse({"choices": [{"delta": {}}], "usage": USAGE})
    assert list(EventStream(CHAT, keep_usage=False).feed(event)) == [event]


@pytest.mark.parametrize(
    "answer",
    [
        *(None, [], "x", {}, {"usage": None, "metrics": None}, {"usage": 3, "metrics": {"queue_time_ms": "x"}}),
        *({"metrics": {"queue_time_ms": ms, "time_to_first_token_ms": ms}} for ms in (-1.0, math.nan, math.inf, 10**400)),
    ],
)
def test_an_answer_without_figures_has_an_empty_account(answer: object) -> None:
    assert read_account(answer) == Account()


def test_a_complete_answer_s_account() -> None:
    assert read_account(parse_json(json.dumps({"usage": USAGE, "metrics": METRICS}).encode())) == ACCOUNT
    assert parse_json(b"not json") is None
    assert parse_json(b"[" * 100_000) is None


def test_a_call_of_one_token_has_no_generation_time() -> None:
    for nothing in (None, "x", -1):
        assert read_account({"metrics": {"time_to_first_token_ms": 10.0, "generation_time_ms": nothing}}).service_s == 0.01


def test_tokens_are_estimated_from_text_wherever_it_stands() -> None:
    assert tokens_by_rule({"messages": [{"role": "user", "content": "x" * 36}]}) == 10
    assert tokens_by_rule({"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 32}]}]}) == 10
    assert tokens_by_rule({"prompt": "x" * 40}) == 10
    assert tokens_by_rule({"prompt": [1, 2, 3]}) == 3
    assert tokens_by_rule({}) == 0
    nested: list[object] = ["x" * 40]
    for _ in range(10_000):
        nested = [nested]
    assert tokens_by_rule({"messages": nested}) == 10


def test_images_count_a_thousand_tokens_however_they_are_sent() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    for part in (url, source):
        assert 1000 <= tokens_by_rule({"messages": [{"role": "user", "content": [part]}]}) < 1010


def test_that_something_is_an_image_its_place_tells_not_its_text() -> None:
    text = "data:" + "x" * 39_995
    for body in (
        {"prompt": text},
        {"messages": [{"role": "user", "content": text}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]},
        {"input": [text]},
        {"tools": [{"type": "base64", "description": text}]},
    ):
        assert 10_000 <= tokens_by_rule(body) < 10_005
    for place in ({"url": text}, {"image_url": text}, {"type": "base64", "data": text}, {"data": text, "format": "wav"}):
        assert 1000 <= tokens_by_rule({"input": [place]}) < 1005


def test_what_one_tenant_sends_changes_no_other_s_estimates() -> None:
    length = PromptLength()
    length.learn("a", 300, 3000, tenant="t")
    assert [length.estimate("a", 100, tenant=tenant) for tenant in ("t", "u", "")] == [1000, 100, 100]


def test_the_length_of_prompts_is_learned_for_each_model() -> None:
    length = PromptLength()
    assert length.estimate("a", 100) == 100
    length.learn("a", 300, 450)
    length.learn("a", 300, None)
    assert length.estimate("a", 200) == 300
    assert length.estimate("b", 200) == 200
    for _ in range(1000):
        length.learn("a", 300, 360)
    assert length.estimate("a", 1000) == 1200
    length.learn("c", 300, 100_000)
    assert length.estimate("c", 10) == 100  # a factor of ten is the most that is believed


def test_a_short_prompt_in_a_long_template_teaches_nothing_of_long_ones() -> None:
    length = PromptLength()
    for by_rule in (1, 20, 255):
        length.learn("a", by_rule, by_rule + 100)
    assert length.estimate("a", 2000) == 2000
    length.learn("a", 2000, 1300)
    assert length.estimate("a", 2000) == 1300


def test_headers_of_the_engine_s_connection_stay_there() -> None:
    dropped = [
        (b"Content-Length", b"3"),
        (b"Connection", b"close, x-Hop"),
        (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
    ]
    kept = [(b"X-Mine", "é".encode()), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2")]
    theirs = [(b"x-agentix-engine", b"of another gateway")]
    ours = [(b"x-agentix-program", "é".encode()), (b"x-agentix-call", b"c"), (b"x-agentix-engine", b"e0")]
    assert client_headers([*dropped, *kept, *theirs], Identity(program_id="é", call_id="c"), "c", "e0") == [*kept, *ours]
    assert upstream_headers([*dropped, *kept], ENGINE, Identity(program_id="é", call_id="c"), "c#2") == [
        *kept,
        *[(b"accept-encoding", b"identity"), (b"x-request-id", b"c#2"), (b"x-session-id", "é".encode())],
    ]


_seconds = st.floats(0, 1e6)


@given(st.builds(Attained, service_s=_seconds, waiting_s=_seconds, critical_path_s=_seconds, path_s=st.none() | _seconds))
def test_totals_survive_the_wire(attained: Attained) -> None:
    assert attained_from_xargs(json.loads(json.dumps(attained_to_xargs(attained)))) == attained


@pytest.mark.parametrize("xargs", [None, {}, {"other": 1}, {"agentix_service_s": "x"}, {"agentix_service_s": -1}])
def test_totals_that_are_not_there_are_none(xargs: dict[str, object] | None) -> None:
    assert attained_from_xargs(xargs) is None
