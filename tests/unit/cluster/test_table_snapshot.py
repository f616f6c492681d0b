"""The table as text: what comes back, and what is no snapshot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.cluster.table_snapshot import Kept, Snapshot, SnapshotError, from_text, to_line, to_text
from agentix.core import ProcessTable
from agentix.core.events import CallArrived, CallFinished, ServedElsewhere

WALL_S = 1_000_000.0


def read(text: str, **clocks: float) -> list[Kept]:
    return read_all(text, **clocks).programs


def read_all(text: str, *, later_s: float = 0.0, keep_s: float = 100.0) -> Snapshot:
    """As read by a process whose clock says 7 at the beginning, when the one that wrote said 50."""
    engines = {"http://x": "e7"}
    return from_text(text, engine_at=lambda a: engines.get(a, ""), now=7.0 + later_s, wall_s=WALL_S + later_s, keep_s=keep_s)


def written(now: float = 50.0) -> str:
    table = ProcessTable()
    table.apply(CallArrived(now=10.0, call_id="a", program_id="t\x1fp", engine_id="e0", pin=True))
    table.apply(CallFinished(now=30.0, call_id="a", service_s=16.0, waiting_s=4.0))
    row = table.row("t\x1fp")
    row.weight = 2.0
    return to_text([to_line(row, home="http://x", now=now, wall_s=WALL_S)])


def test_a_program_comes_back_with_what_it_had() -> None:
    expected = ServedElsewhere(
        now=7.0,
        program_id="t\x1fp",
        service_s=16.0,
        waiting_s=4.0,
        critical_path_s=16.0,
        num_finished=1,
        home_engine_id="e7",
        program_class="",
        weight=2.0,
        started_s=-33.0,
        last_completion_s=-13.0,
    )
    assert read(written()) == [Kept(event=expected, idle_since_s=-13.0)]


def test_an_engine_that_is_not_there_any_more_is_nobodys_home() -> None:
    (kept,) = read(written().replace("http://x", "http://gone"))
    assert kept.event.home_engine_id is None


def test_what_has_been_idle_for_too_long_is_over() -> None:
    text = written()  # idle for 20 s
    assert len(read(text, later_s=80.0)) == 1
    assert read(text, later_s=81.0) == []


def test_a_program_with_a_call_is_not_idle() -> None:
    table = ProcessTable()
    table.apply(CallArrived(now=10.0, call_id="a", program_id="p"))
    line = to_line(table.row("p"), home="", now=50.0, wall_s=WALL_S)
    assert read(to_text([line]))[0].idle_since_s == 7.0


def test_a_wall_clock_that_was_set_back_makes_nothing_come_from_the_future() -> None:
    (kept,) = read(written(), later_s=-60.0)
    assert (kept.idle_since_s, kept.event.started_s) == (-53.0, -53.0)  # now, on that clock


def test_a_program_to_which_nothing_happens_keeps_its_line() -> None:
    table = ProcessTable()
    table.apply(CallArrived(now=10.0, call_id="a", program_id="p"))
    table.apply(CallFinished(now=30.0, call_id="a", service_s=16.0, waiting_s=4.0))
    row = table.row("p")
    lines = {to_line(row, home="", now=50.0 + later_s, wall_s=WALL_S + later_s) for later_s in (0.0, 0.3, 700.0)}
    assert len(lines) == 1


def line_with(**fields: Any) -> str:
    first, line, last, _ = written().split("\n")
    return "\n".join([first, json.dumps({**json.loads(line), **fields}), last, ""])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no first and last line"),
        ("{}\n{}\n", "does not say"),
        ("[1]\n{}\n", "line 1 is not a JSON object"),
        (written().replace('"version": 2', '"version": 3'), "its version is 3, and this Agentix reads 1 and 2"),
        ("\n".join(written().split("\n")[:2]), "cut short"),
        (written().replace('"num_programs": 1', '"num_programs": 2'), "cut short"),
        (written().replace('"num_totals": 0', '"num_totals": 1'), "cut short"),
        (written().replace('"num_totals": 0', '"num_totals": null'), "cut short"),
        (written()[:-50], "line 2 is not a JSON object"),
        (line_with(service_s=-1.0), "line 2 is no program"),
        (line_with(service_s="much"), "line 2 is no program"),
        (line_with(weight=0.0), "line 2 is no program"),
        (line_with(id=7), "line 2 is no program"),
        (line_with(num_finished=1.5), "line 2 is no program"),
        (line_with(last_at_s=None), "line 2 is no program"),
        (written().replace('"service_s"', '"something"'), "line 2 is no program .KeyError"),
    ],
)
def test_what_is_no_snapshot_says_why(text: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read(text)
