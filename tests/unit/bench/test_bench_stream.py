"""Server-sent events, and what is read from them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.bench.reply import BrokenStream, Reply, error_text
from agentix.bench.sse import event_data


async def pieces(stream: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(places):
        yield stream[start:end]


async def events(stream: bytes, cuts: list[int] | None = None) -> list[str]:
    return [data async for data in event_data(pieces(stream, cuts or []))]


async def test_events() -> None:
    assert await events(b"data: a\n\ndata:b\r\n\r\n: hello\n\nevent: x\ndata: c\ndata: d\n\n") == ["a", "b", "c\nd"]


async def test_an_unfinished_event_is_dropped() -> None:
    assert await events(b"data: a\n\ndata: b\n") == ["a"]
    assert await events(b"") == []


text = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(text), st.lists(st.integers(0, 10_000)))
async def test_pieces_do_not_matter(texts: list[str], cuts: list[int]) -> None:
    stream = "".join(f"data: {data}\n\n" for data in texts).encode()
    assert await events(stream, cuts) == texts


def test_reply_keeps_first_and_last_piece_and_usage() -> None:
    reply = Reply()
    reply.read('{"choices": [{"delta": {"role": "assistant", "content": ""}}]}', 1.0)
    assert reply == Reply()  # a role alone is no token
    reply.read('{"choices": [{"delta": {"reasoning_content": "hm"}}], "usage": null}', 2.0)
    reply.read('{"choices": [{"delta": {"content": "a"}}]}', 3.0)
    reply.read('{"choices": [{"delta": {"content": ""}, "finish_reason": "length"}]}', 4.0)
    assert reply.is_finished
    reply.read('{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}', 5.0)
    reply.read("[DONE]", 6.0)
    assert (reply.first_token_s, reply.last_token_s) == (2.0, 4.0)
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens) == (3, 2, None)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{", "broken stream"),
        ("[]", "not a JSON object"),
        ('{"error": {"message": "out of memory", "code": 500}}', "error in stream: out of memory"),
        ('{"error": "bad"}', "error in stream: bad"),
        ('{"choices": [{"delta": {}, "finish_reason": "abort"}]}', "finish_reason 'abort'"),
    ],
)
def test_reply_refuses(data: str, problem: str) -> None:
    with pytest.raises(BrokenStream, match=problem):
        Reply().read(data, 0.0)


@pytest.mark.parametrize(
    "data", ["{}", '{"choices": 1}', '{"choices": [1, {"delta": 2}]}', '{"usage": {"completion_tokens": "x"}}']
)
def test_reply_takes_odd_chunks_for_empty(data: str) -> None:
    reply = Reply()
    reply.read(data, 0.0)
    assert reply == Reply()


def test_error_text() -> None:
    assert error_text({"error": {"message": " m "}}) == "m"
    assert error_text({"detail": "d"}) == "{'detail': 'd'}"
    assert len(error_text("x" * 1000)) == 300
