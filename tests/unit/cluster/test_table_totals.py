"""What is learnt of programs, as text and back, and what is no such text."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.cluster.table_snapshot import SnapshotError, from_text, to_text
from agentix.cluster.table_totals import MAX_KEPT, TotalsLines, totals_line
from agentix.core import ProcessTable
from agentix.core.events import CallArrived, CallFinished, ProgramEnded, TotalsLearnt
from agentix.core.history import MAX_TOTALS, Histories, ServiceHistory

Known = dict[str | None, tuple[list[float], list[int]]]


def learnt(text: str, now: float = 7.0) -> list[TotalsLearnt]:
    return from_text(text, engine_at=lambda _: "", now=now, wall_s=0.0, keep_s=1.0).learnt


def run_program(table: ProcessTable, name: str, program_class: str, service_s: float, tokens: int) -> None:
    """One call of so much service and such a prompt, and the program is over."""
    table.apply(CallArrived(now=0.0, call_id=name, program_id=name, program_class=program_class, prompt_tokens=tokens))
    table.apply(CallFinished(now=1.0, call_id=name, service_s=service_s, waiting_s=0.0))
    table.apply(ProgramEnded(now=1.0, program_id=name))


def known(histories: Histories) -> Known:
    named = [(None, histories.everything), *histories.by_class.items()]
    return {name: (list(h.totals_s), list(h.contexts)) for name, h in named if h.totals_s}


def text_of(table: ProcessTable) -> str:
    return to_text([], asyncio.run(TotalsLines().of(table.histories)))


def test_a_table_that_is_read_foretells_what_the_one_that_was_written_did() -> None:
    table, again = ProcessTable(), ProcessTable()
    for n in range(8):
        run_program(table, f"p{n}", "coder", 10.0, 100)
        run_program(table, f"q{n}", "", 2.0, 50)
    for event in learnt(text_of(table)):
        again.apply(event)
    assert known(again.histories) == {
        None: ([10.0, 2.0] * 8, [100, 50] * 8),
        "coder": ([10.0] * 8, [100] * 8),
        "": ([2.0] * 8, [50] * 8),
    }
    assert again.histories.of("coder").expected_s(0.0) == table.histories.of("coder").expected_s(0.0) == 10.0
    assert again.histories.of("new").expected_s(0.0) == pytest.approx((2 / (0.5 / math.sqrt(2))) ** (2 / 3))  # by all
    assert again.histories.of("coder").expected_context_tokens(60) == 100


programs = st.lists(
    st.tuples(st.sampled_from(["", "a", "b\n", "auto-0"]), st.floats(0, 1e7), st.integers(0, 10**6)), max_size=30
)


@given(programs)
def test_what_is_written_comes_back_to_four_digits_and_then_for_good(over: list[tuple[str, float, int]]) -> None:
    table, again = ProcessTable(), ProcessTable()
    for n, (program_class, service_s, tokens) in enumerate(over):
        run_program(table, f"p{n}", program_class, service_s, tokens)
    text = text_of(table)
    for event in learnt(text):
        again.apply(event)
    assert text_of(again) == text
    before, after = known(table.histories), known(again.histories)
    assert {name: contexts for name, (_, contexts) in before.items()} == {name: c for name, (_, c) in after.items()}
    for name, (totals_s, _) in before.items():
        assert after[name][0] == pytest.approx(totals_s, rel=1e-3)


def test_only_what_has_changed_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    table, lines, written = ProcessTable(), TotalsLines(), []

    def counted(program_class: str | None, history: ServiceHistory) -> str:
        written.append(program_class)
        return totals_line(program_class, history)

    monkeypatch.setattr("agentix.cluster.table_totals.totals_line", counted)
    run_program(table, "p", "a", 1.0, 1)
    run_program(table, "q", "b", 1.0, 1)
    first = asyncio.run(lines.of(table.histories))
    run_program(table, "r", "b", 1.0, 1)
    second = asyncio.run(lines.of(table.histories))
    assert written == [None, "a", "b", None, "b"]
    assert first[1] == second[1]


def test_the_classes_used_last_are_kept() -> None:
    table = ProcessTable()
    for n in range(MAX_KEPT + 1):
        run_program(table, f"p{n}", f"{n:03}", 1.0, 1)
    run_program(table, "again", "000", 1.0, 1)
    classes = [event.program_class for event in learnt(text_of(table))]
    assert classes == [None, "000", *(f"{n:03}" for n in range(2, MAX_KEPT + 1))]


def test_a_text_of_the_version_before_has_programs_alone() -> None:
    assert learnt('{"format": "agentix process table", "version": 1}\n{"num_programs": 0}\n') == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"totals_of": 7},
        {"totals_s": None},
        {"totals_s": ["1"]},
        {"totals_s": [True]},
        {"totals_s": [-1.0]},
        {"totals_s": [float("nan")]},
        {"totals_s": [float("inf")]},
        {"contexts": [1.5]},
        {"contexts": [-1]},
        {"contexts": []},
        {"totals_s": [1.0] * (MAX_TOTALS + 1), "contexts": [1] * (MAX_TOTALS + 1)},
    ],
)
def test_what_is_no_line_of_totals_says_where(wrong: dict[str, Any]) -> None:
    said = {"totals_of": "a", "totals_s": [1.0], "contexts": [1]}
    assert learnt(to_text([], [json.dumps(said)])) == [TotalsLearnt(now=7.0, program_class="a", totals_s=(1.0,), contexts=(1,))]
    with pytest.raises(SnapshotError, match="line 2 is no line of totals"):
        learnt(to_text([], [json.dumps({**said, **wrong})]))
