"""Lineage: a call that goes on from an earlier one is found, whatever else was said; nothing else is."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.gateway.identity.lineage import Lineage, Match, make_trail
from agentix.gateway.identity.turns import Prompt, Turn

SUMMARY = "The user wants the parser rewritten; three of five tests pass.\n" * 2 + (
    "Open: the tokenizer drops the last line of a file without a newline.\n"
    "Done: numbers, strings and comments are read as before."
)
words = st.text("abc", min_size=1, max_size=3)


def user(text: str) -> Turn:
    return Turn("user", text)


def says(text: str, *ids: str) -> Turn:
    return Turn("assistant", text, ids)


class Gateway:
    """The lineage as the gateway drives it; names programs and calls by counting."""

    def __init__(self, max_entries: int = 200_000) -> None:
        self.lineage = Lineage(max_entries=max_entries)
        self.num_calls = 0

    def call(self, turns: list[Turn], *answers: str | Turn, preamble: str = "", tenant: str = "t") -> tuple[str, str, str]:
        """(program, thread, call) of a call with these turns; a new program if it goes on from none."""
        trail = make_trail(tenant, Prompt(tuple(turns), preamble))
        match = self.lineage.find(trail)
        call_id = f"c{self.num_calls}"
        self.num_calls += 1
        program_id, thread_id = f"{tenant}/{call_id}", ""
        if match is not None:
            program_id, thread_id = match.program_id, call_id if match.forked else match.thread_id
            self.lineage.continued(match.program_id, match.call_id)
        said = [(says(a) if isinstance(a, str) else a,) for a in answers]
        self.lineage.add(trail, said, program_id=program_id, thread_id=thread_id, call_id=call_id)
        return program_id, thread_id, call_id


def test_a_conversation_is_one_program_and_a_fork_a_thread_beside() -> None:
    gateway = Gateway()
    first = [user("hi")]
    program, thread, _ = gateway.call(first, "hello")
    second = [*first, says("hello"), user("a")]
    assert gateway.call(second, "x")[:2] == (program, thread)
    beside = gateway.call([*first, says("hello"), user("b")], "y")
    assert beside == (program, "c2", "c2")
    assert gateway.call([*first, says("hello"), user("b"), says("y"), user("c")], "z")[:2] == (program, "c2")
    assert gateway.call([*second, says("x"), user("c")], "z")[:2] == (program, thread)


def test_the_same_words_of_two_programs_are_told_apart_by_who_went_on() -> None:
    gateway = Gateway()
    first = gateway.call([user("hi")], "hello")[0]
    second = gateway.call([user("hi")], "hello")[0]
    assert first != second
    went_on = {gateway.call([user("hi"), says("hello"), user(x)], x)[:2] for x in "ab"}
    assert went_on == {(first, ""), (second, "")}


def test_a_call_with_no_answer_in_it_begins_a_program() -> None:
    gateway = Gateway()
    assert len({gateway.call([user("try")], "a")[0] for _ in range(3)}) == 3
    assert gateway.call([user("try"), user("again")], "b")[0] == "t/c3"


def test_a_changed_preamble_changes_nothing_but_the_choice_among_equals() -> None:
    gateway = Gateway()
    one = gateway.call([user("hi")], "hello", preamble="Be brief.")[0]
    two = gateway.call([user("hi")], "hello", preamble="Be polite.")[0]
    grown = [user("hi"), says("hello"), user("more")]
    assert gateway.call(grown, "x", preamble="Be polite.")[0] == two
    assert gateway.call(grown, "y", preamble="Be brief.")[0] == one
    assert gateway.call([*grown, says("x"), user("m")], "z", preamble="Be brief. It is Tuesday.")[0] == two


def test_each_of_several_choices_can_be_gone_on_from() -> None:
    gateway = Gateway()
    program = gateway.call([user("draw")], "a", "b")[0]
    assert gateway.call([user("draw"), says("b"), user("more")], "c")[0] == program


def test_a_summary_in_place_of_the_history_is_recognised() -> None:
    gateway = Gateway()
    first = [user("rewrite the parser")]
    program = gateway.call(first, "ok")[0]
    gateway.call([*first, says("ok"), user("Summarise what was done.")], SUMMARY)
    assert gateway.call([user(f"This session goes on from an earlier one:\n{SUMMARY}\nGo on.")], "x")[0] == program
    assert gateway.call([user("Somebody said: " + "other things, " * 60 + SUMMARY.splitlines()[-1])], "x")[0] != program


def test_tool_call_ids_lead_through_a_history_that_was_cut() -> None:
    gateway = Gateway()
    first = [user("weather?")]
    program = gateway.call(first, says("f({})", "call_0123456789"))[0]
    cut = [user("(earlier messages were removed)"), says("f({})", "call_0123456789"), Turn("tool", "rain")]
    assert gateway.call(cut, "x")[0] == program


def test_what_two_programs_wrote_is_no_evidence() -> None:
    gateway = Gateway()
    line = "I have finished the task, everything that you asked for is done and checked. " * 3
    gateway.call([user("one")], line)
    gateway.call([user("two")], line)
    assert gateway.call([user("cut"), says(line), user("three")], "x")[0] == "t/c2"


def test_a_task_that_an_engine_wrote_for_a_sub_agent_joins_it() -> None:
    gateway = Gateway()
    program = gateway.call([user("survey")], Turn("assistant", "task({…})", strings=(SUMMARY,)))[0]
    assert gateway.call([user(SUMMARY)], "found")[0] == program


def test_an_ended_program_is_forgotten() -> None:
    gateway = Gateway()
    program = gateway.call([user("hi")], "hello")[0]
    gateway.lineage.forget(program)
    assert (len(gateway.lineage), gateway.lineage.num_entries) == (0, 0)
    assert gateway.call([user("hi"), says("hello"), user("more")], "x")[0] != program


def test_within_a_known_program_nothing_else_is_found() -> None:
    gateway = Gateway()
    program, _, call = gateway.call([user("hi")], "hello")
    trail = make_trail("t", Prompt((user("hi"), says("hello"), user("more"))))
    assert gateway.lineage.find(trail, program_id=program) == Match(program, "", call, forked=False)
    assert gateway.lineage.find(trail, program_id="another") is None


@given(
    st.lists(st.tuples(words, words), min_size=1, max_size=6), st.lists(words, max_size=6), st.sampled_from(["", "new rules"])
)
def test_whatever_else_is_said_a_longer_conversation_goes_on(
    pairs: list[tuple[str, str]], others: list[str], preamble: str
) -> None:
    """Other programs begin in between; their first words may be the same, their beginnings are not."""
    gateway = Gateway()
    turns = [user("the only one that begins like this")]
    program = ""
    for number, (answer, question) in enumerate(pairs):
        found = gateway.call(turns, answer, preamble=preamble if number % 2 else "")
        program = program or found[0]
        assert found[:2] == (program, "")
        for other in others:
            assert gateway.call([user(other)], answer)[0] != program
        turns += [says(answer), user(question)]


@given(st.integers(0, 2**32), st.integers(2, 6))
@settings(max_examples=40)
def test_tenants_never_meet(seed: int, num_calls: int) -> None:
    """Two tenants say the very same things, in any order, with tool ids and long lines among them."""
    rng = random.Random(seed)
    gateway = Gateway()
    turns: dict[str, list[Turn]] = {"a": [user(SUMMARY)], "b": [user(SUMMARY)]}
    for _ in range(num_calls):
        tenant = rng.choice("ab")
        answer = says(SUMMARY + rng.choice("xy"), "call_0123456789")
        assert gateway.call(turns[tenant], answer, tenant=tenant)[0].startswith(f"{tenant}/")
        turns[tenant] = [*turns[tenant], answer, user(rng.choice("pq"))]


@given(st.lists(st.tuples(st.integers(0, 5), words), max_size=60), st.integers(1, 40))
def test_memory_is_bounded_and_consistent(calls: list[tuple[int, str]], max_entries: int) -> None:
    gateway = Gateway(max_entries)
    turns: dict[int, list[Turn]] = {}
    for number, word in calls:
        said = turns.setdefault(number, [user(str(number))])
        gateway.call(said, word)
        said += [says(word), user(word)]
        lineage = gateway.lineage
        assert lineage.num_entries == sum(call.size for call in lineage._calls.values()) <= max_entries
        known = set(map(id, lineage._calls.values()))
        assert {id(c) for index in (lineage._tips, lineage._marks) for cs in index.values() for c in cs} <= known
        assert {(p, c) for p, ids in lineage._programs.items() for c in ids} == set(lineage._calls)
