"""KV kept for a program's next call (policy `program_fcfs`).

Program "p" has a call of 8 + 1 tokens that ends at 1 s and leaves two blocks; before its first gap they are kept for 2 s.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentix.workload import Call, Program
from small_simulation import Played, one_call


def two_calls(gap_s: float) -> Program:
    """Call "b" begins with prompt and answer of "a", and comes `gap_s` after it."""
    calls = (
        Call(call_id="a", parents=(), prompt_tokens=8, output_tokens=1, tool_gap_s=gap_s),
        Call(call_id="b", parents=("a",), prompt_tokens=12, output_tokens=1, reused_tokens=9),
    )
    return Program(program_id="p", workload="test", calls=calls)


def play(arrivals: Any, *, num_blocks: int, policy: str = "program_fcfs", **options: Any) -> Played:
    return Played(arrivals, policy=policy, num_blocks=num_blocks, max_num_seqs=2, **options)


@pytest.mark.parametrize(("policy", "cached_tokens"), [("program_fcfs", 8), ("fcfs", 0)])
def test_the_next_call_finds_what_others_would_have_overwritten(policy: str, cached_tokens: int) -> None:
    """Of 6 blocks "x" takes the 4 that "a" has not used, from 1 s to 2 s. Then "b" comes, and "y", which takes 2 blocks: those
    of "a", which have been free longest, if they are free.
    """
    arrivals = [(0.0, two_calls(1.0)), (1.0, one_call("x", 1, prompt_tokens=15)), (2.0, one_call("y", 1, prompt_tokens=7))]
    played = play(arrivals, num_blocks=6, policy=policy)
    assert played.started_s == {"a": 0.0, "x": 1.0, "b": 2.0, "y": 2.0}
    assert played.calls["b"].cached_tokens == cached_tokens


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_blocks_that_are_kept_are_free_when_their_time_has_passed(max_bulk_steps: int) -> None:
    """Of 5 blocks 2 are kept from 1 s to 3 s and "x" has one until 5 s; "y" needs 3 and comes at 1 s."""
    arrivals = [(0.0, two_calls(50.0)), (1.0, one_call("x", 4)), (1.0, one_call("y", 1, prompt_tokens=12))]
    played = play(arrivals, num_blocks=5, max_bulk_steps=max_bulk_steps)
    assert played.started_s == {"a": 0.0, "x": 1.0, "y": 3.0, "b": 51.0}


@pytest.mark.parametrize("steps_per_schedule", [1, 4])
def test_a_call_that_grows_takes_blocks_that_are_kept_before_it_is_preempted(steps_per_schedule: int) -> None:
    """ "x" holds the other 2 of 4 blocks and needs a third at 2 s, whether or not a batch is chosen then. It gets the last one
    of "a"; "b" finds the first.
    """
    arrivals = [(0.0, two_calls(1.5)), (1.0, one_call("x", 3, prompt_tokens=8))]
    played = play(arrivals, num_blocks=4, steps_per_schedule=steps_per_schedule)
    assert (played.calls["x"].end_s, played.calls["x"].num_preemptions) == (4.0, 0)
    assert played.calls["b"].cached_tokens == 4


def test_an_idle_engine_keeps_nothing_from_a_call_that_waits() -> None:
    """ "x" needs all 6 blocks, 2 of which are kept, and nothing else runs."""
    played = play([(0.0, two_calls(50.0)), (1.0, one_call("x", 1, prompt_tokens=23))], num_blocks=6)
    assert played.started_s["x"] == 1.0


def test_a_call_that_waits_does_not_end_what_is_kept_while_others_run() -> None:
    """Neither does "y", which needs 5 of 5 blocks, when 2 are kept until 3 s and "x" has one until 2 s."""
    arrivals = [(0.0, two_calls(50.0)), (1.0, one_call("x", 1)), (1.0, one_call("y", 1, prompt_tokens=17))]
    played = play(arrivals, num_blocks=5)
    assert played.started_s["y"] == 2.0  # then nothing runs, and what is kept is given up


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_a_program_that_is_over_keeps_nothing(max_bulk_steps: int) -> None:
    """Program "p" has two calls. "a" ends at 2 s beside "x", and 2 of 5 blocks are kept for 2 s. "c" ends elsewhere at
    2.5 s, and with it the program. So "y", which needs 3 blocks, starts with the next step beside "x".
    """
    calls = tuple(Call(call_id=name, parents=(), prompt_tokens=8, output_tokens=1) for name in "ac")
    parallel = Program(program_id="p", workload="test", calls=calls)
    arrivals = [(0.0, one_call("x", 6)), (0.5, one_call("v", 1)), (1.0, parallel), (2.0, one_call("y", 1, prompt_tokens=11))]
    played = play(arrivals, num_blocks=5, num_engines=2, max_bulk_steps=max_bulk_steps)
    assert played.started_s == {"x": 0.0, "v": 0.5, "a": 1.0, "c": 1.5, "y": 3.0}
    for engine in played.simulation.engines.values():
        assert engine.memory.cache.num_free_blocks == 5


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_what_was_kept_for_a_call_is_free_when_it_has_come(max_bulk_steps: int) -> None:
    """Of 6 blocks 2 are kept for "b", which takes 1 at 2 s and shares nothing, and "x" has 1. So at the next choice, at 3 s,
    there are 4 for "y".
    """
    calls = (
        Call(call_id="a", parents=(), prompt_tokens=8, output_tokens=1, tool_gap_s=1.0),
        Call(call_id="b", parents=("a",), prompt_tokens=3, output_tokens=5),
    )
    program = Program(program_id="p", workload="test", calls=calls)
    arrivals = [(0.0, program), (0.0, one_call("x", 6)), (1.0, one_call("y", 1, prompt_tokens=15))]
    options: dict[str, Any] = {"max_num_seqs": 3, "max_bulk_steps": max_bulk_steps}
    played = Played(arrivals, policy="program_fcfs", num_blocks=6, **options)
    assert played.started_s == {"a": 0.0, "x": 0.0, "b": 2.0, "y": 3.0}
