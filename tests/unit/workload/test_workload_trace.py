"""Conversations and threads of a recorded program."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.workload import Call, Message, Program, TraceError, full_messages, poisson_arrivals, thread_ids


def call(call_id: str, *parents: str, text: str | None = None, **fields: Any) -> Call:
    messages = None if text is None else ({"role": "user", "content": text},)
    return Call(call_id=call_id, parents=parents, prompt_tokens=1, output_tokens=1, messages=messages, **fields)


def program(*calls: Call) -> Program:
    return Program(program_id="p", workload="w", calls=calls)


def contents(traced: Program, call_id: str) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in full_messages(traced, traced.call(call_id))]


def test_a_child_that_inherits_sees_parent_and_recorded_answer() -> None:
    traced = program(
        call("a", text="1", output_text="one"),
        call("b", "a", text="2", inherits=True, output_text=""),
        call("c", "b", text="3", inherits=True),
        call("d", "c", text="4", inherits=True),
    )
    expected = [("user", "1"), ("assistant", "one"), ("user", "2"), ("assistant", ""), ("user", "3"), ("user", "4")]
    assert contents(traced, "d") == expected  # c's answer was not recorded, b's was empty


def test_a_child_that_does_not_inherit_sees_its_own_messages() -> None:
    traced = program(call("a", text="1", output_text="one"), call("b", "a", text="2"))
    assert contents(traced, "b") == [("user", "2")]


def test_only_the_first_parent_is_inherited() -> None:
    traced = program(call("a", text="1"), call("b", text="2"), call("c", "b", "a", text="3", inherits=True))
    assert contents(traced, "c") == [("user", "2"), ("user", "3")]


@pytest.mark.parametrize(("keep", "kept"), [(None, 2), (0, 2), (1, 1), (2, 2), (9, 2)])
def test_keep_cuts_what_is_inherited_answer_included(keep: int | None, kept: int) -> None:
    traced = program(call("a", text="1", output_text="one"), call("b", "a", text="2", inherits=True, keep=keep))
    assert contents(traced, "b") == [*[("user", "1"), ("assistant", "one")][:kept], ("user", "2")]


def test_length_only_calls_have_no_conversation() -> None:
    traced = program(call("a"))
    assert not traced.has_text
    with pytest.raises(TraceError, match="program 'p', call 'a': no message text"):
        full_messages(traced, traced.calls[0])


def test_unknown_call() -> None:
    with pytest.raises(TraceError, match="call 'z': no such call"):
        program(call("a")).call("z")


def by_the_book(traced: Program, current: Call) -> list[Message]:
    """The rule of the trace format, word for word."""
    messages = list(current.messages or ())
    if not current.inherits:
        return messages
    parent = traced.call(current.parents[0])
    answer = [] if parent.output_text is None else [{"role": "assistant", "content": parent.output_text}]
    return (by_the_book(traced, parent) + answer)[: current.keep or None] + messages


@st.composite
def programs(draw: st.DrawFn) -> Program:
    calls: list[Call] = []
    for index in range(draw(st.integers(1, 10))):
        parents = draw(st.lists(st.sampled_from([c.call_id for c in calls]), unique=True, max_size=3)) if calls else []
        calls.append(
            call(
                f"c{index}",
                *parents,
                text=f"m{index}",
                inherits=bool(parents) and draw(st.booleans()),
                keep=draw(st.none() | st.integers(0, 6)),
                output_text=draw(st.none() | st.just(f"o{index}")),
            )
        )
    return program(*calls)


@given(programs())
def test_conversations_follow_the_rule(traced: Program) -> None:
    for current in traced.calls:
        assert full_messages(traced, current) == by_the_book(traced, current)


def test_very_long_chains_do_not_exhaust_the_stack() -> None:
    chain = [call("c0", text="0")]
    chain += [call(f"c{i}", f"c{i - 1}", text=str(i), inherits=True) for i in range(1, 5000)]
    assert len(contents(program(*chain), "c4999")) == 5000


def test_threads_of_fork_and_join() -> None:
    traced = program(call("r"), call("a", "r"), call("b", "r"), call("c", "b"), call("z", "a", "c"), call("y", "a"))
    assert thread_ids(traced) == {"r": "t0", "a": "t0", "b": "t1", "c": "t1", "z": "t0", "y": "t2"}


@given(programs())
def test_a_thread_is_a_chain(traced: Program) -> None:
    threads = thread_ids(traced)
    for name in set(threads.values()):
        chain = [c for c in traced.calls if threads[c.call_id] == name]
        assert all(earlier.call_id in later.parents for earlier, later in itertools.pairwise(chain))


def test_arrivals_begin_at_zero_and_scale_with_the_rate() -> None:
    slow = poisson_arrivals(random.Random(1), num_programs=2000, rate_per_s=0.5)
    fast = poisson_arrivals(random.Random(1), num_programs=2000, rate_per_s=5)
    assert slow[0] == 0
    assert slow == sorted(slow)
    assert slow == pytest.approx([10 * t for t in fast])
    assert slow[-1] / 1999 == pytest.approx(2, rel=0.1)


def test_an_infinite_rate_is_a_batch() -> None:
    assert poisson_arrivals(random.Random(1), num_programs=3, rate_per_s=float("inf")) == [0, 0, 0]
