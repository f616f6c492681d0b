"""What recorded prompts share: names and lengths of segments, worked out by hand."""

from __future__ import annotations

from agentix.record.calls import Message
from agentix.record.prompts import prompt_parts_of
from recorded_calls import message

SYSTEM, USER, MORE = message(("s", 100)), message(("u", 100)), message(("v", 40))
ANSWER = (message(("A", 60)),)

Prompt = tuple[str, str, tuple[Message, ...], tuple[Message, ...], int, int]


def test_a_prompt_is_spread_over_its_messages_by_their_length() -> None:
    first: Prompt = ("p", "a", (SYSTEM, MORE), (), 70, 7)
    assert prompt_parts_of([first]) == {("p", "a"): (("s", 50), ("v", 20))}


def test_a_system_prompt_has_one_name_and_one_length_in_all_programs() -> None:
    first: Prompt = ("p", "a", (SYSTEM, USER), (), 50, 7)
    other: Prompt = ("q", "a", (SYSTEM, MORE), (), 45, 7)
    assert prompt_parts_of([first, other]) == {
        ("p", "a"): (("s", 25), ("u", 25)),
        ("q", "a"): (("s", 25), ("v", 20)),
    }


def test_an_answer_that_comes_back_is_the_segment_of_that_answer() -> None:
    first: Prompt = ("p", "a", (SYSTEM, USER), ANSWER, 50, 7)
    second: Prompt = ("p", "b", (SYSTEM, USER, *ANSWER, MORE), (), 67, 3)
    assert prompt_parts_of([first, second])["p", "b"] == (("s", 25), ("u", 25), ("p/a:answer", 7), ("v", 10))


def test_an_answer_that_the_engine_did_not_give_is_text_like_any_other() -> None:
    first: Prompt = ("p", "a", (SYSTEM, USER), ANSWER, 50, 7)
    second: Prompt = ("p", "b", (SYSTEM, USER, message(("B", 60)), MORE), (), 67, 3)
    assert prompt_parts_of([first, second])["p", "b"] == (("s", 25), ("u", 25), ("B", 10), ("v", 7))


def test_an_answer_of_several_turns_counts_whole_and_of_equal_beginnings_the_longest() -> None:
    said = (message(("A", 60)), message(("T", 20)))
    first: Prompt = ("p", "a", (USER,), (said[0],), 10, 7)
    twin: Prompt = ("p", "b", (USER,), said, 10, 9)
    third: Prompt = ("p", "c", (USER, *said, MORE), (), 29, 3)
    assert prompt_parts_of([first, twin, third])["p", "c"] == (("u", 10), ("p/b:answer", 9), ("v", 10))


def test_prompts_that_part_within_a_message_share_its_beginning() -> None:
    first: Prompt = ("p", "a", (message(("x", 100), ("y", 100)),), (), 20, 1)
    other: Prompt = ("q", "a", (message(("x", 100), ("z", 50)),), (), 15, 1)
    found = prompt_parts_of([first, other])
    assert found["p", "a"] == (("x", 10), ("y", 10))
    assert found["q", "a"] == (("x", 10), ("z", 5))


def test_where_pieces_say_nothing_the_prompt_is_one_segment_of_its_own() -> None:
    assert prompt_parts_of([("p", "a", (), (), 12, 1)]) == {("p", "a"): (("p/a:prompt", 12),)}


def test_counts_that_contradict_each_other_still_add_up() -> None:
    first: Prompt = ("p", "a", (SYSTEM, USER), (), 50, 7)
    shorter: Prompt = ("q", "a", (SYSTEM, USER, MORE), (), 30, 7)
    assert prompt_parts_of([first, shorter])["q", "a"] == (("s", 25), ("u", 5))
