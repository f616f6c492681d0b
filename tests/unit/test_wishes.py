"""What clients and operators may ask of the order: priority of a call, weight of a class, running calls first in a level."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.core import ConfigError, SchedulerConfig
from agentix.core.events import Attained, Batch, CallArrived, Placed, from_record, to_record
from agentix.wire import attained_from_xargs, attained_to_xargs
from core_shell import Shell


@pytest.mark.parametrize(("priority", "level"), [(None, 1), (0, 1), (1, 2), (-1, 0), (-9, 0), (10**9, 3)])
def test_priority_moves_a_call_by_levels_and_no_further_than_the_ends(priority: int | None, level: int) -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0, 4.0))
    shell.serve("before", 1.5)
    assert shell.arrive("c", priority=priority) == [Placed(call_id="c", level=level, reason="arrival")]


@pytest.mark.parametrize("policy", ["plas", "atlas", "mlfq"])
def test_a_call_that_starves_rises_no_further_than_its_priority_lets_it(policy: str) -> None:
    """The first call of a program that has had nothing starves at once, whatever β is: 0 s of service, and any wait."""
    shell = Shell(policy=policy, quanta_s=(1.0, 2.0, 4.0), starvation_ratio=2.0)
    shell.arrive("bad", "p", priority=2)
    shell.arrive("good", "q")
    shell.wait(100.0)
    assert [shell.scheduler.level(c) for c in ("good", "bad")] == [0, 2]


def test_a_call_with_a_priority_sinks_from_where_it_stands() -> None:
    shell = Shell(policy="mlfq", quanta_s=(1.0, 2.0))
    shell.arrive("c", priority=1)
    assert shell.step(1.5, "c") == []
    assert shell.step(0.5, "c") == [Placed(call_id="c", level=2, reason="quantum")]


def test_a_class_of_weight_two_receives_twice_the_service_at_each_level() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0, 2.0), class_weights=(("gold", 2.0),))
    for name in ("gold", "other"):
        shell.begin(name, program_class=name)
        shell.arrive(f"{name}-1", name)
    assert shell.step(1.0, "gold-1", "other-1") == [Placed(call_id="other-1", level=1, reason="quantum")]
    assert shell.step(1.0, "gold-1", "other-1") == [Placed(call_id="gold-1", level=1, reason="quantum")]
    for name in ("gold", "other"):
        shell.finish(f"{name}-1")
        shell.serve(f"{name}-2", 1.5, name)
    assert shell.arrive("gold-3", "gold")[0].level == 1  # 3.5 s of 6 s
    assert shell.arrive("other-3", "other")[0].level == 2  # 3.5 s of 3 s


def test_with_running_first_no_call_is_preempted_for_one_of_its_own_level() -> None:
    for running_first, first in ((False, "b"), (True, "a")):
        shell = Shell(policy="mlfq", quanta_s=(1.0, 5.0), running_first=running_first)
        shell.arrive("b")
        shell.step(1.0, "b")  # level 1, entered first
        shell.arrive("a")
        shell.start("a")
        shell.step(1.0, "a")  # level 1, entered second, and running
        assert shell.scheduler.order[0] == first
        assert shell.choose(1) == Batch(
            run=(first,), admit=() if first == "a" else ("b",), preempt=() if first == "a" else ("a",)
        )
        shell.arrive("better")
        assert shell.choose(1).run == ("better",)
        shell.scheduler.validate()


def test_wishes_travel_as_json() -> None:
    config = SchedulerConfig(class_weights=(("gold", 2.0),), running_first=True)
    assert SchedulerConfig.from_mapping(json.loads(json.dumps(config.to_mapping()))) == config
    arrival = CallArrived(now=1.0, call_id="c", program_id="p", priority=-2, attained=Attained(program_class="gold"))
    assert from_record(json.loads(json.dumps(to_record(arrival)))) == arrival
    assert attained_from_xargs(attained_to_xargs(Attained(service_s=1.0, program_class="gold"))) == Attained(
        service_s=1.0, program_class="gold"
    )
    assert "agentix_class" not in attained_to_xargs(Attained(program_class=""))
    assert attained_from_xargs(attained_to_xargs(Attained(expected_s=2.5))) == Attained(expected_s=2.5)
    assert "agentix_expected_s" not in attained_to_xargs(Attained())


def test_the_class_comes_with_the_call() -> None:
    shell = Shell(policy="plas", quanta_s=(1.0,), class_weights=(("gold", 4.0),))
    assert shell.arrive("c", attained=Attained(service_s=3.0, program_class="gold"))[0].level == 0
    shell.arrive("d", attained=Attained(service_s=3.0))
    assert shell.table.row("p").program_class == "gold"


BAD_WEIGHTS = [{"a": 0}, {"a": -1}, {"a": "2"}, {"a": True}, ["a"], {"a": float("inf")}, {"a": float("nan")}]


@pytest.mark.parametrize("weights", BAD_WEIGHTS)
def test_a_bad_weight_is_refused(weights: Any) -> None:
    with pytest.raises(ConfigError, match="weight"):
        SchedulerConfig.from_mapping({"class_weights": weights})


def test_running_first_is_a_yes_or_a_no() -> None:
    with pytest.raises(ConfigError, match="running_first must be true or false, not 'yes'"):
        SchedulerConfig.from_mapping({"running_first": "yes"})
