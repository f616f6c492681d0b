"""Segments of prompts: they add up, children extend their parents, and equal text has equal names."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentix.workload import Call, Program, answer_part, full_messages, program_parts, prompt_parts
from prefix_reuse import PrefixTree


def call(call_id: str, *parents: str, text: str | None = None, prompt_tokens: int = 10, **fields: Any) -> Call:
    messages = None if text is None else ({"role": "user", "content": text},)
    return Call(
        call_id=call_id, parents=parents, prompt_tokens=prompt_tokens, messages=messages, **({"output_tokens": 4} | fields)
    )


def program(*calls: Call, program_id: str = "p", **fields: Any) -> Program:
    return Program(program_id=program_id, workload="w", calls=calls, **fields)


def shared(first: Program, first_id: str, second: Program, second_id: str) -> int:
    tree = PrefixTree()
    tree.add(prompt_parts(first, first.call(first_id)))
    return tree.match(prompt_parts(second, second.call(second_id)))


def test_given_parts_are_the_parts() -> None:
    traced = program(call("a", prompt_parts=(("s", 7), ("u", 3))))
    assert prompt_parts(traced, traced.calls[0]) == (("s", 7), ("u", 3))
    assert answer_part(traced, traced.calls[0]) == ("p/a:answer", 4)


def test_lengths_alone_are_a_segment_of_the_calls_own() -> None:
    traced = program(call("a"), call("b", "a"))
    assert prompt_parts(traced, traced.call("a")) == (("p/a:prompt", 10),)
    assert shared(traced, "a", traced, "b") == 0


def test_reused_tokens_are_the_beginning_of_the_parents_prompt_and_answer() -> None:
    traced = program(call("a"), call("b", "a", prompt_tokens=20, reused_tokens=12), call("c", "b", reused_tokens=3))
    assert prompt_parts(traced, traced.call("b")) == (("p/a:prompt", 10), ("p/a:answer", 2), ("p/b:prompt", 8))
    assert prompt_parts(traced, traced.call("c")) == (("p/a:prompt", 3), ("p/c:prompt", 7))


def test_what_is_said_to_be_reused_beyond_the_parent_is_new() -> None:
    traced = program(call("a"), call("b", "a", prompt_tokens=20, reused_tokens=16))
    assert prompt_parts(traced, traced.call("b")) == (("p/a:prompt", 10), ("p/a:answer", 4), ("p/b:prompt", 6))


def test_equal_block_ids_are_equal_segments_in_other_programs_too() -> None:
    first = program(call("a", prefix_hash_ids=(1, 2, 3)), block_size=4)
    second = program(call("a", prefix_hash_ids=(1, 2, 4)), block_size=4, program_id="q")
    assert prompt_parts(first, first.calls[0]) == (("w#1", 4), ("w#2", 4), ("w#3", 2))
    assert shared(first, "a", second, "a") == 8


def test_a_text_childs_prompt_is_the_parents_its_answer_and_the_new_message() -> None:
    traced = program(
        call("a", text="first question", output_text="answer\nin two lines"),
        call("b", "a", text="second", inherits=True, prompt_tokens=24),
    )
    parent, child = program_parts(traced).values()
    assert child.prompt[:-1] == (*parent.prompt, parent.answer)
    assert sum(tokens for _, tokens in child.prompt) == 24


def test_a_repeated_answer_is_the_answer_even_where_the_child_does_not_inherit() -> None:
    repeats = (
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "more"},
    )
    traced = program(
        call("a", text="q", output_text="yes"),
        call("b", "a", text="next", inherits=True, prompt_tokens=20),
        Call(call_id="c", parents=("a",), prompt_tokens=21, output_tokens=1, messages=repeats),
    )
    assert prompt_parts(traced, traced.call("c"))[:2] == prompt_parts(traced, traced.call("b"))[:2]


def test_prompts_that_part_in_the_middle_of_a_message_share_its_lines_until_there() -> None:
    traced = program(
        call("a", text="example\n" * 9 + "one", prompt_tokens=100),
        call("b", text="example\n" * 9 + "two", prompt_tokens=101),
    )
    assert 75 <= shared(traced, "a", traced, "b") < 100
    assert len({parts.prompt[0] for parts in program_parts(traced).values()}) == 1


def test_a_system_prompt_is_shared_across_programs_as_far_as_the_shorter_estimate_goes() -> None:
    def with_question(program_id: str, question: str) -> Program:
        messages = ({"role": "system", "content": "rules " * 100}, {"role": "user", "content": question})
        return program(
            Call(call_id="a", parents=(), prompt_tokens=130, output_tokens=1, messages=messages), program_id=program_id
        )

    assert 100 <= shared(with_question("p", "short"), "a", with_question("q", "a longer question"), "a") < 130


def test_contradictory_counts_still_add_up() -> None:
    traced = program(
        call("a", text="q", output_text="yes", prompt_tokens=50),
        call("b", "a", text="more", inherits=True, prompt_tokens=5),
        call("c", text="q", prompt_tokens=90),
        call("d", text="", prompt_tokens=0),
        Call(call_id="e", parents=(), prompt_tokens=3, output_tokens=1, messages=()),
    )
    assert [sum(n for _, n in parts.prompt) for parts in program_parts(traced).values()] == [50, 5, 90, 0, 3]


@st.composite
def text_programs(draw: st.DrawFn) -> Program:
    calls: list[Call] = []
    for index in range(draw(st.integers(1, 8))):
        parents = draw(st.lists(st.sampled_from([c.call_id for c in calls]), unique=True, max_size=2)) if calls else []
        calls.append(
            call(
                f"c{index}",
                *parents,
                text=draw(st.text("ab\n", max_size=6)),
                prompt_tokens=draw(st.integers(0, 40)),
                output_tokens=draw(st.integers(0, 9)),
                inherits=bool(parents) and draw(st.booleans()),
                keep=draw(st.none() | st.integers(1, 4)),
                output_text=draw(st.none() | st.text("ab\n", max_size=3)),
            )
        )
    return program(*calls)


@given(text_programs())
def test_parts_add_up_and_equal_conversations_have_equal_parts(traced: Program) -> None:
    parts = program_parts(traced)
    seen: dict[str, Any] = {}
    for current in traced.calls:
        mine = parts[current.call_id]
        assert sum(tokens for _, tokens in mine.prompt) == current.prompt_tokens
        assert all(tokens > 0 for _, tokens in mine.prompt)
        assert mine.answer == answer_part(traced, current)
        key = f"{full_messages(traced, current)} {current.prompt_tokens}"
        names = [name for name, _ in mine.prompt if not name.endswith(":prompt")]
        assert seen.setdefault(key, names) == names


@given(st.data())
def test_chains_with_growing_counts_extend_their_parents_exactly(data: st.DataObject) -> None:
    calls, prompt_tokens = [call("c0", text="q", output_text="a0", prompt_tokens=9)], 9
    for index in range(1, data.draw(st.integers(2, 6))):
        prompt_tokens += calls[-1].output_tokens + data.draw(st.integers(1, 30))
        text = data.draw(st.text("ab\n", max_size=6))
        output = data.draw(st.integers(1, 9))
        calls.append(
            call(
                f"c{index}",
                f"c{index - 1}",
                text=text,
                inherits=True,
                prompt_tokens=prompt_tokens,
                output_text=f"a{index}",
                output_tokens=output,
            )
        )
    parts = list(program_parts(program(*calls)).values())
    for parent, child in itertools.pairwise(parts):
        assert child.prompt[: len(parent.prompt) + 1] == (*parent.prompt, parent.answer)
