"""The plug-in's waiting queue against a sorted list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_vllm import Request, plug_in

IDS = st.sampled_from("abcdef")
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(("add", "prepend", "remove", "rekey")), IDS, st.integers(0, 3)),
    st.tuples(st.just("pop"), st.just(""), st.just(0)),
)


@pytest.fixture(scope="module")
def queue_class() -> Iterator[Any]:
    with plug_in() as module:
        yield module.ProgramQueue


@given(st.lists(ACTIONS))
def test_it_is_a_sorted_list_of_distinct_requests(queue_class: Any, actions: list[tuple[str, str, int]]) -> None:
    levels = dict.fromkeys("abcdef", 0)
    requests = {i: Request(i) for i in levels}
    queue = queue_class(lambda i: (levels[i], 0.0, ord(i), i))
    waiting: set[str] = set()
    for action, request_id, level in actions:
        match action:
            case "add":
                queue.add_request(requests[request_id])
                waiting.add(request_id)
            case "prepend":
                queue.prepend_requests([requests[request_id], requests["a"]])
                waiting |= {request_id, "a"}
            case "remove":
                queue.remove_requests([requests[request_id]])
                waiting.discard(request_id)
            case "rekey":
                levels[request_id] = level
                queue.reposition(request_id)
            case "pop" if waiting:
                best = min(waiting, key=lambda i: (levels[i], i))
                assert queue.peek_request() is queue.pop_request() is requests[best]
                waiting.remove(best)
        assert [r.request_id for r in queue] == sorted(waiting, key=lambda i: (levels[i], i))
        assert (len(queue), bool(queue)) == (len(waiting), bool(waiting))


def test_an_empty_queue_has_nothing_to_give(queue_class: Any) -> None:
    queue = queue_class(lambda i: (0, 0.0, 0, i))
    for take in (queue.peek_request, queue.pop_request):
        with pytest.raises(IndexError):
            take()
    with pytest.raises(KeyError):
        queue.remove_request(Request("a"))


def test_a_request_that_is_held_back_waits_and_is_not_given_out(queue_class: Any) -> None:
    held = {"a", "b"}
    queue = queue_class(lambda i: (0, 0.0, ord(i), i), held.__contains__)
    requests = {i: Request(i) for i in "abc"}
    queue.prepend_requests(requests.values())
    assert queue.pop_request() is requests["c"]
    assert (len(queue), bool(queue), list(queue)) == (2, False, [requests["a"], requests["b"]])
    with pytest.raises(IndexError):
        queue.peek_request()
    held.discard("b")
    queue.reposition("b")
    assert bool(queue)
    assert queue.peek_request() is requests["b"]
