"""Steps that are played as one are the same as steps played one by one: what could tell them apart, each on its own."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.core.events import StepCompleted
from agentix.sim.events import EngineFails
from agentix.sim.flight import Flight, Work
from agentix.workload import Call, Program
from small_simulation import Played, one_call

EITHER_WAY = pytest.mark.parametrize("max_bulk_steps", [1, 1024])


@pytest.mark.parametrize(
    ("now", "num_begun", "ends_now"),
    [(0.0, 1, False), (1.0, 1, True), (1.5, 2, False), (2.0, 2, True), (4.0, 3, True), (9.0, 3, False)],
)
def test_a_flight_is_cut_after_the_step_that_runs(now: float, num_begun: int, ends_now: bool) -> None:
    """Steps end at 1 s, 2 s and 4 s. At 2 s the second one has ended and the third one has not begun."""
    flight = Flight(0.0, Work(), [1.0, 2.0, 4.0])
    assert (flight.num_begun(now), flight.has_end_at(now)) == (num_begun, ends_now)
    assert flight.cut(now) == (num_begun < 3)
    assert flight.ends_s == [1.0, 2.0, 4.0][:num_begun]


def test_steps_are_played_as_one_where_nothing_happens() -> None:
    """The prompt is a step of its own. The newcomer at 5.5 s waits for the step that runs and ends the flight with it."""
    played = Played([(0.0, one_call("a", 20)), (5.5, one_call("b", 1))], policy="fcfs", max_bulk_steps=1024)
    steps = [(event.now, event.duration_s) for event in played.events if isinstance(event, StepCompleted)]
    assert steps == [(1.0, 1.0), (6.0, 5.0), (20.0, 14.0), (21.0, 1.0)]
    assert played.counts.num_steps == 21


@EITHER_WAY
def test_a_call_that_runs_starves_in_the_step_in_which_it_does(max_bulk_steps: int) -> None:
    """The device waits 8 s for each choice, which is for 4 steps. After its first 4 s of service, at 12 s, the call sinks; it
    has waited 8 s. Starving is waiting 3 times as long as being served: so at 21 s, with 16 s to 5 s, but not at 24 s,
    with 16 s to 8 s. At 33 s it has been served for another 4 s and sinks again, and 8 s of waiting are too few.
    """
    options: dict[str, Any] = {"steps_per_schedule": 4, "scheduling_s": 8.0, "max_bulk_steps": max_bulk_steps}
    played = Played([(0.0, one_call("a", 12))], policy="mlfq", quanta_s=(4.0,), starvation_ratio=3.0, **options)
    assert played.placed == [(0.0, 0, "arrival"), (12.0, 1, "quantum"), (21.0, 0, "starving"), (33.0, 1, "quantum")]
    assert played.ends_s == {"a": 36.0}
    assert (played.counts.num_choices, played.counts.scheduling_s, played.counts.busy_s) == (3, 24.0, 12.0)
    assert played.calls["a"].service_s == 12.0


@EITHER_WAY
def test_a_call_that_waits_starves_in_the_step_in_which_it_does(max_bulk_steps: int) -> None:
    """ "a" sinks at 3 s, "b" at 6 s, and "a" goes on. At 10 s "b" has waited 6 s since 1 s, twice its service of 3 s."""
    arrivals = [(0.0, one_call("a", 30)), (1.0, one_call("b", 9))]
    options: dict[str, Any] = {"quanta_s": (3.0,), "starvation_ratio": 2.0, "max_bulk_steps": max_bulk_steps}
    played = Played(arrivals, policy="mlfq", **options)
    assert played.placed[2:5] == [(3.0, 1, "quantum"), (6.0, 1, "quantum"), (10.0, 0, "starving")]
    assert played.preempted_s[:3] == [("a", 3.0), ("b", 6.0), ("a", 10.0)]


@EITHER_WAY
@pytest.mark.parametrize(("arrives_s", "engine_id"), [(5.5, "engine-0"), (9.5, "engine-0"), (10.5, "engine-1")])
def test_a_balancer_sees_the_blocks_that_steps_in_the_air_have_taken(
    arrives_s: float, engine_id: str, max_bulk_steps: int
) -> None:
    """ "x" leaves two cached blocks of the prompt on the first engine. "y" takes the other two, the second one of these at 6 s
    for its 9th token and the first one at 10 s for its 13th. A block or two bring "z" there, none sends it to the idle engine.
    """

    def same(name: str) -> Program:
        call = Call(call_id=name, parents=(), prompt_tokens=9, output_tokens=1, prompt_parts=(("same", 9),))
        return Program(program_id=name, workload="test", calls=(call,))

    arrivals = [(0.0, same("x")), (1.0, one_call("y", 12, prompt_tokens=4)), (arrives_s, same("z"))]
    played = Played(
        arrivals, policy="fcfs", balancer="prefix_aware", num_engines=2, num_blocks=4, max_bulk_steps=max_bulk_steps
    )
    assert played.story("2/z")[0] == ("CallArrived", arrives_s, engine_id)


@EITHER_WAY
def test_an_answer_is_found_by_the_next_call(max_bulk_steps: int) -> None:
    """4 + 13 tokens, all but the last one computed: 4 full blocks."""
    calls = (
        Call(call_id="a", parents=(), prompt_tokens=4, output_tokens=13),
        Call(call_id="b", parents=("a",), prompt_tokens=20, output_tokens=1, reused_tokens=17),
    )
    played = Played(
        [(0.0, Program(program_id="p", workload="test", calls=calls))], policy="fcfs", max_bulk_steps=max_bulk_steps
    )
    assert played.calls["b"].cached_tokens == 16


def runs_beside(output_tokens: int) -> Program:
    """Two calls at once: "runs" has 30 steps, "waits" so many."""
    calls = tuple(
        Call(call_id=name, parents=(), prompt_tokens=1, output_tokens=n) for name, n in (("runs", 30), ("waits", output_tokens))
    )
    return Program(program_id="p", workload="test", calls=calls)


@EITHER_WAY
def test_a_call_that_runs_starves_when_its_program_has_waited_elsewhere(max_bulk_steps: int) -> None:
    """From 0.5 s on "runs" has an engine for itself and sinks at 3.5 s. On the other one "waits" has waited 2.5 s and run for
    1 s when it ends at 4 s. At 4.5 s that makes 2.5 s of waiting to 1 + 4 s of service: half. At 5.5 s it would be less.
    """
    arrivals = [(0.0, one_call("x", 3)), (0.5, runs_beside(1))]
    options: dict[str, Any] = {"quanta_s": (3.0,), "starvation_ratio": 0.5, "max_bulk_steps": max_bulk_steps}
    played = Played(arrivals, policy="plas", num_engines=2, **options)
    assert played.calls["waits"].end_s == 4.0
    assert played.placed[4:6] == [(3.5, 1, "quantum"), (4.5, 0, "starving")]


@EITHER_WAY
def test_also_when_what_waited_is_lost_with_its_engine(max_bulk_steps: int) -> None:
    """ "waits" has waited until 9 s, has yielded a token at 10 s and is lost at 10.25 s: 8.75 s of waiting to 1 + 10 s of
    service at 10.5 s, which is more than 3 to 4; a second later it would be less. It is sent again to a third, idle engine.
    """
    arrivals = [(0.0, one_call("x", 9)), (0.0, one_call("y", 5)), (0.5, runs_beside(5))]
    options: dict[str, Any] = {
        "quanta_s": (3.0,),
        "starvation_ratio": 0.75,
        "preemption": "none",
        "max_bulk_steps": max_bulk_steps,
    }
    played = Played(arrivals, [(10.25, EngineFails("engine-0"))], policy="plas", num_engines=3, **options)
    assert [event[2] for event in played.story("2/waits'")[:1]] == ["engine-1"]
    assert (10.5, 0, "starving") in played.placed
