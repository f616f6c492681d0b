"""What other gateways have done for a program, or one that ran before: how it comes into the table."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentix.core import EngineView, InvalidTransition, ProcessTable, ProgramRow, make_balancer
from agentix.core.events import ServedElsewhere, from_record, to_record
from core_shell import Shell


def elsewhere(table: ProcessTable, now: float = 0.0, **fields: Any) -> ProgramRow:
    table.apply(ServedElsewhere(now=now, program_id="p", **fields))
    table.validate()
    return table.row("p")


def test_it_opens_a_row_and_adds_to_one() -> None:
    shell = Shell()
    row = elsewhere(shell.table, now=5.0, service_s=2.0, waiting_s=1.0, num_finished=2, started_s=3.0)
    assert (row.started_s, row.service_s, row.waiting_s, row.num_finished, row.num_aborted) == (3.0, 2.0, 1.0, 2, 0)
    shell.now = 6.0
    shell.serve("a", 4.0)
    assert elsewhere(shell.table, now=9.0, service_s=0.5, num_aborted=1) is row
    assert (row.started_s, row.service_s, row.waiting_s, row.num_finished, row.num_aborted) == (3.0, 6.5, 1.0, 3, 1)


def test_the_critical_path_is_the_longest_that_anybody_has_seen() -> None:
    shell = Shell()
    shell.serve("a", 4.0)
    assert elsewhere(shell.table, critical_path_s=3.0).critical_path_s == 4.0
    assert elsewhere(shell.table, critical_path_s=5.0).critical_path_s == 5.0


def test_a_program_that_was_served_elsewhere_arrives_at_the_level_of_its_total() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0))
    elsewhere(shell.table, service_s=3.0)
    assert [(p.call_id, p.level) for p in shell.arrive("a")] == [("a", 2)]


def test_home_class_and_weight_are_taken_over_and_no_news_changes_nothing() -> None:
    table = ProcessTable()
    row = elsewhere(table, home_engine_id="e1", program_class="coder", weight=2.0, num_calls=3)
    assert (row.home_engine_id, row.engine_ids, row.program_class, row.weight) == ("e1", ["e1"], "coder", 2.0)
    elsewhere(table)
    assert (row.home_engine_id, row.program_class, row.weight, row.num_calls_elsewhere) == ("e1", "coder", 2.0, 3)
    assert elsewhere(table, num_calls=0).num_active == 0


def test_tokens_of_late_are_halved_up_to_the_later_completion() -> None:
    shell = Shell()
    shell.arrive("a", prompt_tokens=100)
    shell.finish("a", output_tokens=50)
    elsewhere(shell.table, last_completion_s=60.0)
    assert shell.row().recent_tokens == 100.0  # 100 + 2 × 50, a half-life later
    elsewhere(shell.table, last_completion_s=30.0)
    assert shell.row().last_completion_s == 60.0


@pytest.mark.parametrize(
    "fields",
    [
        {"service_s": -1.0},
        {"waiting_s": math.nan},
        {"critical_path_s": math.inf},
        {"num_finished": -1},
        {"num_calls": -1},
        {"weight": 0.0},
        {"home_engine_id": ""},
    ],
)
def test_what_no_program_can_have_is_refused_and_changes_nothing(fields: dict[str, Any]) -> None:
    table = ProcessTable()
    with pytest.raises(InvalidTransition):
        table.apply(ServedElsewhere(now=0.0, program_id="p", **fields))
    assert not table.rows


def test_it_can_be_written_down() -> None:
    event = ServedElsewhere(now=1.0, program_id="p", service_s=2.0, home_engine_id="e0")
    assert from_record(to_record(event)) == event


def test_a_program_that_is_active_elsewhere_keeps_its_home() -> None:
    """It leaves its home for this call, but not for good, as long as calls of it are under way somewhere."""
    balancer = make_balancer("program_affinity")
    engines = [
        EngineView(engine_id="e0", num_calls=9, num_waiting=8, call_s=10.0, prefill_s_per_token=0.001),
        EngineView(engine_id="e1", num_calls=0, num_waiting=0, call_s=10.0, prefill_s_per_token=0.001),
    ]
    row = ProgramRow(program_id="p", started_s=0.0, home_engine_id="e0", num_calls_elsewhere=1)
    route = balancer.route(1000, row, engines)
    assert (route.engine_ids[0], route.pin) == ("e1", False)
    row.num_calls_elsewhere = 0
    assert balancer.route(1000, row, engines).pin
