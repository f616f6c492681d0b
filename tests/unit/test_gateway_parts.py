"""The gateway's pure parts: identity, accounts, what goes upstream, names on the wire."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.events import Attained
from agentix.gateway.accounting import Account, StreamAccount, read_account, read_json
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import identify
from agentix.gateway.upstream import client_headers, estimate_tokens
from agentix.wire import attained_from_xargs, attained_to_xargs
from fake_engine import METRICS, USAGE, sse

ACCOUNT = Account(service_s=2.0, waiting_s=0.25, output_tokens=3)
USAGE_EVENT = sse({"choices": [], "usage": USAGE, "metrics": METRICS})
STREAM = sse({"choices": [{"delta": {"content": 'a\n\n"usage": {'}}]}) + USAGE_EVENT + b"data: [DONE]\n\n"


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.booleans())
def test_a_stream_is_read_the_same_however_it_is_cut(cuts: list[int], keep: bool) -> None:
    stream = StreamAccount(keep_usage=keep)
    edges = [0, *sorted(cuts), len(STREAM)]
    passed = b"".join(e for a, b in itertools.pairwise(edges) for e in stream.feed(STREAM[a:b])) + stream.close()
    assert passed == (STREAM if keep else STREAM.replace(USAGE_EVENT, b""))
    assert stream.account == ACCOUNT
    assert stream.done


def test_events_with_carriage_returns_and_without_a_last_blank_line() -> None:
    stream = StreamAccount(keep_usage=False)
    crlf = USAGE_EVENT.replace(b"\n", b"\r\n")
    assert list(stream.feed(b"data: {}\r\n\r\n" + crlf + b"data: tail")) == [b"data: {}\r\n\r\n"]
    assert stream.close() == b"data: tail"
    assert stream.account == ACCOUNT
    assert not stream.done


@given(st.binary(max_size=200))
def test_bytes_that_are_not_events_pass_untouched(data: bytes) -> None:
    stream = StreamAccount(keep_usage=False)
    assert b"".join(stream.feed(data)) + stream.close() == data


def test_usage_beside_a_choice_is_never_left_out() -> None:
    event = sse({"choices": [{"delta": {}}], "usage": USAGE})
    assert list(StreamAccount(keep_usage=False).feed(event)) == [event]


@pytest.mark.parametrize(
    "answer", [None, [], "x", {}, {"usage": None, "metrics": None}, {"usage": 3, "metrics": {"queue_time_ms": "x"}}]
)
def test_an_answer_without_figures_has_an_empty_account(answer: object) -> None:
    assert read_account(answer) == Account()


def test_a_complete_answer_s_account() -> None:
    assert read_json(json.dumps({"usage": USAGE, "metrics": METRICS}).encode()) == ACCOUNT
    assert read_json(b"not json") == Account()


def test_a_call_of_one_token_has_no_generation_time() -> None:
    assert read_account({"metrics": {"time_to_first_token_ms": 10.0, "generation_time_ms": None}}).service_s == 0.01


def test_parents_unknown_none_and_some_are_three_things() -> None:
    assert identify({}, {}).parents is None
    assert identify({"x-agentix-parent": ""}, {}).parents == ()
    assert identify({"x-agentix-parent": "a, b,"}, {}).parents == ("a", "b")


def test_an_anonymous_call_is_named_after_itself() -> None:
    identity = identify({"x-agentix-call": "c"}, {"user": ""})
    assert identity.anonymous
    assert identity.program_id == "anonymous-c"


@pytest.mark.parametrize("program_id", ["\x00", "a\tb", "x" * 257])
def test_ids_that_would_break_a_log_or_a_header_are_refused(program_id: str) -> None:
    with pytest.raises(HTTPError, match="printable"):
        identify({"x-agentix-program": program_id}, {})


def test_tokens_are_estimated_from_text_wherever_it_stands() -> None:
    assert estimate_tokens({"messages": [{"role": "user", "content": "x" * 36}]}) == 10
    assert estimate_tokens({"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 32}]}]}) == 10
    assert estimate_tokens({"prompt": "x" * 40}) == 10
    assert estimate_tokens({"prompt": [1, 2, 3]}) == 3
    assert estimate_tokens({}) == 0


def test_headers_of_the_engine_s_connection_stay_there() -> None:
    headers = {"Content-Length": "3", "Connection": "close", "X-Mine": "1", "Transfer-Encoding": "chunked"}
    assert client_headers(headers) == [("X-Mine", "1")]


_seconds = st.floats(0, 1e6)


@given(st.builds(Attained, service_s=_seconds, waiting_s=_seconds, critical_path_s=_seconds, path_s=st.none() | _seconds))
def test_totals_survive_the_wire(attained: Attained) -> None:
    assert attained_from_xargs(json.loads(json.dumps(attained_to_xargs(attained)))) == attained


@pytest.mark.parametrize("xargs", [None, {}, {"other": 1}, {"agentix_service_s": "x"}, {"agentix_service_s": -1}])
def test_totals_that_are_not_there_are_none(xargs: dict[str, object] | None) -> None:
    assert attained_from_xargs(xargs) is None
