"""Only so many programs under way at once: who waits, for how long, and why calls went where they went."""

from __future__ import annotations

import pytest

from agentix.core.events import CallArrived
from agentix.workload import Call, Program
from small_simulation import Played, one_call


@pytest.mark.parametrize(
    ("max_programs", "ends_s"),
    [
        (1, {"a": 2.0, "b": 5.0, "c": 6.0, "d": 8.0}),
        (2, {"a": 2.0, "b": 3.0, "c": 3.0, "d": 5.0}),
        (3, {"a": 2.0, "b": 3.0, "c": 1.0, "d": 3.0}),
        (None, {"a": 2.0, "b": 3.0, "c": 1.0, "d": 2.0}),
    ],
)
def test_the_next_program_starts_when_one_is_over(max_programs: int | None, ends_s: dict[str, float]) -> None:
    """Four slots, a step a second, programs of 2, 3, 1 and 2 steps that are there from the beginning."""
    arrivals = [(0.0, one_call(name, steps)) for name, steps in zip("abcd", (2, 3, 1, 2), strict=True)]
    assert Played(arrivals, policy="fcfs", max_num_seqs=4, max_programs=max_programs).ends_s == ends_s


def test_a_place_is_free_when_the_last_call_of_a_program_is_over() -> None:
    """A program of two calls with a second between them; one that arrives at that very moment comes behind who waits."""
    calls = (
        Call(call_id="a1", parents=(), prompt_tokens=1, output_tokens=1, tool_gap_s=1.0),
        Call(call_id="a2", parents=("a1",), prompt_tokens=1, output_tokens=1),
    )
    first = Program(program_id="a", workload="test", calls=calls)
    arrivals = [(0.0, first), (1.0, one_call("b", 2)), (3.0, one_call("c", 2))]
    played = Played(arrivals, policy="fcfs", max_num_seqs=4, max_programs=1)
    assert played.ends_s == {"a1": 1.0, "a2": 3.0, "b": 5.0, "c": 7.0}
    assert played.calls["b"].ready_s == 3.0


def test_the_log_says_why_a_call_went_where_it_went() -> None:
    """Two engines of one slot. At 3 s, w0 runs on p's home and w2 waits: 1 s, as far as p1 tells. w1 is alone on the other.

    A prompt token takes 1/4096 s to compute, so p2's context costs 0.73 s, of which w1 has to wait too: 1.47 s.
    """
    p1 = Call(call_id="p1", parents=(), prompt_tokens=3000, output_tokens=1, tool_gap_s=2.0)
    p2 = Call(call_id="p2", parents=("p1",), prompt_tokens=3001, output_tokens=1)
    wide = tuple(Call(call_id=f"w{i}", parents=(), prompt_tokens=1, output_tokens=9) for i in range(3))
    played = Played(
        [
            (0.0, Program(program_id="p", workload="test", calls=(p1, p2))),
            (0.0, one_call("v", 2)),
            (0.5, Program(program_id="w", workload="test", calls=wide)),
        ],
        policy="fcfs",
        balancer="program_affinity+min_gain=0.5",
        num_engines=2,
        num_blocks=2000,
        max_batch_tokens=4096,
    )
    arrivals = {event.call_id.partition("/")[2]: event for event in played.events if isinstance(event, CallArrived)}
    assert {name: (event.engine_id, event.route) for name, event in arrivals.items()} == {
        "p1": ("engine-0", "least used, now home"),
        "v": ("engine-1", "least used, now home"),  # p1 has a free slot: nobody waits
        "w0": ("engine-0", "least used, now home"),
        "w1": ("engine-1", "short prompt: least used"),
        "w2": ("engine-0", "short prompt: least used"),
        "p2": ("engine-1", "moved: 1.00 s wait at home, 0.00 s here; price 1.47 s"),
    }
    assert arrivals["p2"].pin
