"""Recorded conversations as differences: what the trace makes of them again is what was sent, message for message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentix.record.programs import make_programs
from agentix.record.texts import WARNING, text_fields
from agentix.workload import full_messages, load_programs, save_programs
from recorded_calls import recorded


def said(*texts: str) -> tuple[dict[str, Any], ...]:
    """A conversation: user, assistant, user …"""
    return tuple({"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts))


def test_a_chat_tells_each_message_once() -> None:
    fields = text_fields([("a", (), said("q")), ("b", ("a",), said("q", "an answer", "and?"))])
    assert fields["a"] == {"messages": said("q"), "inherits": False, "keep": None}
    assert fields["b"] == {"messages": said("q", "an answer", "and?")[1:], "inherits": True, "keep": None}


def test_what_a_client_takes_back_is_not_inherited() -> None:
    long = said("q", "an answer", "and?")
    fields = text_fields([("a", (), long), ("shorter", ("a",), long[:1]), ("other", ("a",), said("x"))])
    assert fields["shorter"] == {"messages": (), "inherits": True, "keep": 1}
    assert fields["other"] == {"messages": said("x"), "inherits": False, "keep": None}


def test_a_call_without_text_has_none_in_the_trace_and_nobody_inherits_from_it() -> None:
    fields = text_fields([("ids", (), None), ("b", ("ids",), said("q"))])
    assert fields == {"b": {"messages": said("q"), "inherits": False, "keep": None}}


def test_a_program_with_text_says_so_and_one_without_does_not() -> None:
    with_text, without = make_programs(
        [recorded("a", 0.0, 1.0, messages=said("q"), begun_before=True), recorded("b", 2.0, 3.0, program_id="q")]
    )
    assert (with_text.has_text, dict(with_text.meta)) == (True, {"begun_before": True, "text": WARNING})
    assert (without.has_text, dict(without.meta)) == (False, {})


CONVERSATIONS = st.lists(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4), min_size=1, max_size=5)


@given(CONVERSATIONS, st.data())
def test_whatever_was_sent_is_what_a_replay_sends(conversations: list[list[str]], data: st.DataObject) -> None:
    calls = []
    for n, texts in enumerate(conversations):
        parents = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=2)) if n else []
        parent_ids = tuple(map(str, parents))
        calls.append(recorded(str(n), float(2 * n), 2.0 * n + 1, parents=parent_ids, messages=said(*texts)))
    (program,) = make_programs(calls)
    assert [full_messages(program, call) for call in program.calls] == [list(said(*texts)) for texts in conversations]


def test_the_file_holds_what_was_recorded(tmp_path: Path) -> None:
    calls = [recorded("a", 0.0, 1.0, messages=said("q")), recorded("b", 2.0, 3.0, messages=said("q", "so", "?"))]
    programs = make_programs(calls)
    save_programs(tmp_path / "t.jsonl", programs)
    assert tuple(load_programs(tmp_path / "t.jsonl")) == programs
