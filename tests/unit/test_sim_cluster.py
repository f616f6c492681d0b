"""Several modelled engines: what happens at one moment, engines that fail and join."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.core import ConfigError
from agentix.core.events import CallArrived, CallFinished, StepCompleted
from agentix.sim.events import ControlEvent, EngineFails, EngineJoins
from agentix.sim.simulation import NoEngine
from agentix.workload import Call, Program
from small_simulation import Played, one_call


def play(arrivals: Any, control: Any = (), *, policy: str = "fcfs", num_engines: int = 2, **options: Any) -> Played:
    return Played(arrivals, control, policy=policy, num_engines=num_engines, **options)


# --- at one moment steps end, then calls arrive, then engines fail and join, then steps begin


def test_a_call_that_ends_leaves_before_another_one_is_routed() -> None:
    """At 3 s "short" ends on the second engine and "new" arrives: a moment later the load is 1 and 0, before it is 1 and 1."""
    played = play([(0.0, one_call("long", 9)), (0.0, one_call("short", 3)), (3.0, one_call("new", 1))])
    assert played.story("2/new")[0] == ("CallArrived", 3.0, "engine-1")
    assert played.ends_s == {"long": 9.0, "short": 3.0, "new": 4.0}


def test_a_call_arrives_before_its_engine_fails_and_does_not_start_there() -> None:
    played = play([(3.0, one_call("new", 1))], [(3.0, EngineFails("engine-0"))])
    assert played.story("0/new") == [
        ("CallArrived", 3.0, "engine-0"),
        ("CallMoved", 3.0, "engine-1"),
        ("CallMoved", 3.0, "engine-1"),
        ("CallStarted", 3.0, ""),
        ("CallFinished", 4.0, ""),
    ]


def test_a_call_arrives_before_an_engine_joins() -> None:
    arrivals = [(0.0, one_call("long", 9)), (3.0, one_call("new", 1))]
    played = play(arrivals, [(3.0, EngineJoins("late"))], num_engines=1)
    assert played.story("1/new")[0] == ("CallArrived", 3.0, "engine-0")


def test_a_call_that_ends_when_its_engine_fails_has_ended() -> None:
    played = play([(0.0, one_call("a", 3))], [(3.0, EngineFails("engine-0"))])
    assert played.story("0/a")[-1] == ("CallFinished", 3.0, "")
    assert played.ends_s == {"a": 3.0}


def test_an_engine_chooses_when_all_of_a_moment_have_come() -> None:
    """The second call of "old" follows at once and is the first to arrive; "new" has had less and goes first."""
    calls = (
        Call(call_id="a", parents=(), prompt_tokens=1, output_tokens=2),
        Call(call_id="b", parents=("a",), prompt_tokens=1, output_tokens=1),
    )
    old = Program(program_id="old", workload="test", calls=calls)
    played = play([(0.0, old), (2.0, one_call("new", 1))], policy="plas", num_engines=1)
    assert played.ends_s == {"a": 2.0, "new": 3.0, "b": 4.0}


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_steps_that_end_at_one_moment_do_so_in_the_order_of_the_engines(max_bulk_steps: int) -> None:
    """ "b" comes to the first engine when "a" is under way on the second one, and both end at 5 s. Played one by one their last
    steps begin at 4 s; played as one those of "a" begin at 1 s, those of "b" at 2 s.
    """
    arrivals = [(0.0, one_call("x", 1)), (0.0, one_call("a", 5)), (1.0, one_call("b", 4))]
    played = play(arrivals, max_bulk_steps=max_bulk_steps)
    finished = [(event.call_id, event.now) for event in played.events if isinstance(event, CallFinished)]
    assert finished == [("0/x", 1.0), ("2/b", 5.0), ("1/a", 5.0)]


# --- engines that fail

BEFORE = [(0.0, one_call("yielded", 10)), (0.0, one_call("other", 5)), (0.0, one_call("waits", 2))]


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_calls_that_yielded_nothing_move_and_the_others_are_sent_again(max_bulk_steps: int) -> None:
    """At 2.5 s the first engine is in its third step. All is left to the second one, where "other" ends at 5 s."""
    played = play(BEFORE, [(2.5, EngineFails("engine-0"))], max_bulk_steps=max_bulk_steps)
    assert played.story("0/yielded") == [
        ("CallArrived", 0.0, "engine-0"),
        ("CallStarted", 0.0, ""),
        ("CallAborted", 2.5, ""),
    ]
    assert played.story("0/yielded'")[:2] == [("CallArrived", 2.5, "engine-1"), ("CallStarted", 5.0, "")]
    assert played.story("2/waits")[:3] == [
        ("CallArrived", 0.0, "engine-0"),
        ("CallMoved", 2.5, "engine-1"),
        ("CallMoved", 2.5, "engine-1"),
    ]
    assert played.ends_s == {"other": 5.0, "yielded": 15.0, "waits": 17.0}
    again = played.calls["yielded"]
    assert (again.ready_s, again.first_token_s, again.service_s) == (0.0, 6.0, 10.0)
    failed = played.simulation.failed_engines[0]
    assert (failed.calls, failed.counts.num_steps, failed.counts.busy_s) == ({}, 2, 2.0)
    served = [event for event in played.events if isinstance(event, StepCompleted) and event.call_ids == ("0/yielded",)]
    assert (sum(step.duration_s for step in served), served[-1].now) == (2.0, 2.0)


def test_a_prompt_that_is_half_computed_begins_again_elsewhere() -> None:
    """In chunks of 4: "first" computes 20 tokens until 5 s, "a" has found them and computed 4 of 8 more at 6.5 s. On the other
    engine it finds nothing and computes 28.
    """
    programs = []
    for name, own in (("first", 0), ("a", 8)):
        parts = (("same", 20), ("own", own))
        call = Call(call_id=name, parents=(), prompt_tokens=20 + own, output_tokens=1, prompt_parts=parts)
        programs.append(Program(program_id=name, workload="test", calls=(call,)))
    arrivals = [(0.0, programs[0]), (5.0, programs[1])]
    played = play(arrivals, [(6.5, EngineFails("engine-0"))], max_batch_tokens=4)
    assert played.ends_s == {"first": 5.0, "a": 6.5 + 7.0}
    engines = [*played.simulation.failed_engines, *played.simulation.engines.values()]
    assert [engine.counts.computed_tokens for engine in engines] == [24, 28]
    assert (played.calls["a"].cached_tokens, played.calls["a"].num_preemptions) == (0, 0)


def test_a_moved_call_finds_what_its_new_engine_has() -> None:
    """Of 10 tokens "b" finds 8 there, where "a" has computed the same prompt."""
    same = [
        Program(
            program_id=name,
            workload="test",
            calls=(Call(call_id=name, parents=(), prompt_tokens=10, output_tokens=1, prompt_parts=(("same", 10),)),),
        )
        for name in "ab"
    ]
    arrivals = [(0.0, one_call("x", 5)), (0.0, same[0]), (4.0, same[1])]
    played = play(arrivals, [(4.5, EngineFails("engine-0"))], balancer="round_robin")
    assert [event[2] for event in played.story("2/b")[:3]] == ["engine-0", "engine-1", "engine-1"]
    assert played.calls["b"].cached_tokens == 8


def test_the_last_engine_fails_and_another_one_joins() -> None:
    """ "a" is sent again when there is somebody to send it to, and so is what has become ready meanwhile."""
    arrivals = [(0.0, one_call("a", 4)), (3.0, one_call("b", 1))]
    played = play(arrivals, [(1.5, EngineFails("engine-0")), (5.0, EngineJoins("late"))], num_engines=1)
    assert played.ends_s == {"a": 9.0, "b": 10.0}
    assert (played.calls["a"].ready_s, played.calls["b"].ready_s) == (0.0, 3.0)


def test_no_engine_is_left() -> None:
    with pytest.raises(NoEngine, match="2 calls are left and the last engine has failed"):
        play([(0.0, one_call("a", 4)), (3.0, one_call("b", 1))], [(1.5, EngineFails("engine-0"))], num_engines=1)


def test_an_engine_that_joins_gets_calls() -> None:
    arrivals = [(float(t), one_call(name, 8)) for t, name in enumerate("abc")]
    played = play(arrivals, [(1.5, EngineJoins("late"))], num_engines=1)
    assert [event.engine_id for event in played.events if isinstance(event, CallArrived)] == ["engine-0", "engine-0", "late"]
    assert played.ends_s == {"a": 8.0, "b": 16.0, "c": 10.0}


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ([EngineFails("engine-7")], "engine 'engine-7' fails and is not there"),
        ([EngineFails("engine-0"), EngineFails("engine-0")], "engine 'engine-0' fails and is not there"),
        ([EngineJoins("engine-1")], "engine 'engine-1' joins twice"),
        ([EngineFails("engine-1"), EngineJoins("engine-1")], "engine 'engine-1' joins twice"),
    ],
)
def test_what_cannot_happen_to_an_engine_is_named(control: list[ControlEvent], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        play([], [(1.0, event) for event in control])


def test_ten_runs_are_one() -> None:
    control: list[tuple[float, ControlEvent]] = [
        (2.5, EngineFails("engine-0")),
        (4.0, EngineJoins("late")),
        (7.0, EngineFails("engine-1")),
    ]
    arrivals = [(i * 0.5, one_call(f"c{i}", 2 + i % 5, prompt_tokens=1 + i % 3)) for i in range(12)]
    logs = {play(arrivals, control, policy="plas", balancer="power_of_two", max_num_seqs=2).log for _ in range(10)}
    assert len(logs) == 1
    assert "CallMoved" in logs.pop()
