"""A program's weight: twice the weight, twice the service at each level."""

from __future__ import annotations

import pytest

from agentix.core import InvalidTransition, ProcessTable, Scheduler, SchedulerConfig, UnknownProgram
from agentix.core.events import (
    Attained,
    CallArrived,
    CallFinished,
    CallStarted,
    Placed,
    ProgramStarted,
    ProgramWeighted,
    StepCompleted,
    from_record,
    to_record,
)
from agentix.wire import attained_from_xargs, attained_to_xargs

CONFIG = SchedulerConfig(policy="plas", quanta_s=(1.0, 2.0), starvation_ratio=None, class_weights=(("gold", 2.0),))


def level_after(service_s: float, weight: float, program_class: str = "") -> int:
    """At which level a call of PLAS arrives whose program has had so much."""
    core = Scheduler(CONFIG, ProcessTable())
    core.apply(ProgramStarted(now=0.0, program_id="p", program_class=program_class))
    core.apply(ProgramWeighted(now=0.0, program_id="p", weight=weight))
    core.apply(CallArrived(now=0.0, call_id="a", program_id="p"))
    core.apply(CallFinished(now=9.0, call_id="a", service_s=service_s))
    return core.apply(CallArrived(now=9.0, call_id="b", program_id="p"))[0].level


@pytest.mark.parametrize(
    ("service_s", "weight", "level"), [(0.9, 1, 0), (1.0, 1, 1), (1.9, 2, 0), (2.0, 2, 1), (6.0, 2, 2), (0.5, 0.5, 1)]
)
def test_service_counts_one_over_the_weight(service_s: float, weight: float, level: int) -> None:
    assert level_after(service_s, weight) == level


def test_it_comes_on_top_of_the_classs() -> None:
    assert (level_after(5.9, 3.0, "gold"), level_after(6.0, 3.0, "gold")) == (0, 1)


def test_a_quantum_lasts_the_weight_times_as_long() -> None:
    core = Scheduler(CONFIG, ProcessTable())
    core.apply(ProgramStarted(now=0.0, program_id="p"))
    core.apply(ProgramWeighted(now=0.0, program_id="p", weight=3.0))
    core.apply(CallArrived(now=0.0, call_id="a", program_id="p"))
    core.apply(CallStarted(now=0.0, call_id="a"))
    assert core.apply(StepCompleted(now=2.9, duration_s=2.9, call_ids=("a",))) == []
    demoted = [Placed(call_id="a", level=1, reason="quantum")]
    assert core.apply(StepCompleted(now=3.0, duration_s=0.1, call_ids=("a",))) == demoted


def test_an_engine_learns_it_with_the_totals_and_1_is_taken_for_granted() -> None:
    table = ProcessTable()
    for call_id, weight in (("a", 4.0), ("b", 1.0), ("c", 0.0), ("d", 1e9)):
        table.apply(CallArrived(now=0.0, call_id=call_id, program_id="p", attained=Attained(weight=weight)))
        assert table.row("p").weight == (4.0 if call_id == "a" else 1.0)
    assert attained_to_xargs(Attained(weight=4.0))["agentix_weight"] == 4.0
    assert "agentix_weight" not in attained_to_xargs(Attained())
    assert attained_from_xargs(attained_to_xargs(Attained(service_s=1.0, weight=4.0))) == Attained(service_s=1.0, weight=4.0)


def test_it_is_an_event_and_must_be_in_bounds() -> None:
    event = ProgramWeighted(now=1.0, program_id="p", weight=2.0)
    assert from_record(to_record(event)) == event
    table = ProcessTable()
    with pytest.raises(UnknownProgram):
        table.apply(event)
    table.apply(ProgramStarted(now=0.0, program_id="p"))
    for weight in (0.0, -1.0, 0.0009, 1001.0, float("nan")):
        with pytest.raises(InvalidTransition, match="a weight must be from"):
            table.apply(ProgramWeighted(now=1.0, program_id="p", weight=weight))
    assert table.row("p").weight == 1.0
