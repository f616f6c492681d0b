"""What preemption costs on a modelled engine, and what a call that is preempted may still do."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.core import ConfigError
from agentix.core.balancers import make_balancer
from agentix.cost import UnitCost
from agentix.sim.config import EngineConfig
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program
from small_simulation import Played, one_call


def play(arrivals: Any, *, policy: str = "mlfq", prefix_cache: bool = False, **options: Any) -> Played:
    return Played(arrivals, policy=policy, prefix_cache=prefix_cache, **options)


# "old" has used up its quanta of 1 s and 2 s when "new" comes at 4 s, in the third of four steps on its level; so "new" is
# better until it has had 3 s, which is all it needs. At 4 s, 3 + 4 tokens of "old" are known and 6 computed: 2 blocks.
OLD_AND_NEW = [(0.0, one_call("old", 9, prompt_tokens=3)), (4.0, one_call("new", 3, prompt_tokens=3))]
TOKENS = 3 + 9 - 1 + 3 + 3 - 1


def test_park_keeps_what_is_computed() -> None:
    played = play(OLD_AND_NEW, preemption="park")
    assert played.preempted_s == [("old", 4.0)]
    assert played.ends_s == {"new": 7.0, "old": 12.0}
    assert (played.counts.num_evictions, played.counts.recomputed_tokens, played.counts.num_swaps) == (0, 0, 0)
    assert played.counts.computed_tokens == TOKENS
    assert (played.calls["old"].longest_wait_s, played.calls["old"].num_preemptions) == (3.0, 1)


def test_recompute_drops_it() -> None:
    """Steps of one second whatever is in them, so the 7 known tokens come back in the step that yields the next one."""
    played = play(OLD_AND_NEW, preemption="recompute")
    assert played.ends_s == {"new": 7.0, "old": 12.0}
    assert (played.counts.num_evictions, played.counts.recomputed_tokens, played.counts.num_swaps) == (1, 6, 0)
    assert played.counts.computed_tokens == TOKENS + 6


def test_what_is_dropped_comes_back_from_the_prefix_cache_in_whole_blocks() -> None:
    """6 tokens are one full block of 4; 2 are computed again."""
    played = play(OLD_AND_NEW, preemption="recompute", prefix_cache=True)
    assert played.counts.recomputed_tokens == 6
    assert played.counts.computed_tokens == TOKENS + 2


def test_a_running_call_stays_without_preemption() -> None:
    played = play(OLD_AND_NEW, preemption="none")
    assert played.preempted_s == []
    assert played.ends_s == {"old": 9.0, "new": 12.0}


@pytest.mark.parametrize(("bulk", "transfer_s"), [(False, 2.0), (True, 0.5)])
def test_swaps_are_waited_for_and_are_no_service(bulk: bool, transfer_s: float) -> None:
    """Two blocks go out at 4 s and come back when "new" has ended, one second a block or half a second for all of them."""
    played = play(OLD_AND_NEW, preemption="swap", bulk_swap=bulk)
    new_ends_s = 4.0 + transfer_s + 3.0
    assert played.ends_s == {"new": new_ends_s, "old": new_ends_s + transfer_s + 5.0}
    old, new, counts = played.calls["old"], played.calls["new"], played.counts
    assert (old.swap_s, new.swap_s, counts.swap_s) == (2 * transfer_s, 0.0, 2 * transfer_s)
    assert (counts.num_swaps, counts.swapped_tokens) == (2, 12)
    assert (old.service_s, new.service_s, counts.busy_s) == (9.0, 3.0, 12.0)
    assert (counts.num_evictions, counts.recomputed_tokens, counts.computed_tokens) == (1, 0, TOKENS)


def test_what_the_prefix_cache_has_kept_is_not_swapped_in() -> None:
    """One of the two blocks is full and still there; the other one comes back."""
    counts = play(OLD_AND_NEW, preemption="swap", bulk_swap=False, prefix_cache=True).counts
    assert (counts.num_swaps, counts.swapped_tokens, counts.swap_s) == (2, 6 + 2, 2.0 + 1.0)
    assert counts.computed_tokens == TOKENS


def test_swap_needs_its_cost() -> None:
    with pytest.raises(ConfigError, match="preemption by swap needs the cost of a transfer"):
        Simulation(
            [],
            [],
            engine=EngineConfig(preemption="swap"),
            cost=UnitCost(),
            balancer=make_balancer("least_used"),
            swap_cost=None,
        )


def test_a_parked_call_gives_its_blocks_up_when_they_are_needed() -> None:
    """Of 3 blocks the parked call holds 2, and the other one needs its second for 5 tokens, after its second step."""
    played = play(OLD_AND_NEW, preemption="park", num_blocks=3)
    assert played.ends_s == {"new": 7.0, "old": 12.0}
    assert (played.counts.num_evictions, played.counts.recomputed_tokens) == (1, 6)
    assert play(OLD_AND_NEW, preemption="park", num_blocks=4).counts.num_evictions == 0


@pytest.mark.parametrize("preemption", ["none", "park", "recompute"])
def test_a_running_call_goes_when_blocks_run_out(preemption: str) -> None:
    """Two calls of 3 + 9 tokens on 4 blocks: 8 tokens each after 5 steps. At 6 s "a" needs a third block and takes those
    of "b", of which 8 tokens are computed. "b" comes back at 9 s for its last three tokens.
    """
    both = [(0.0, one_call("a", 9, prompt_tokens=3)), (0.0, one_call("b", 9, prompt_tokens=3))]
    played = play(both, policy="fcfs", preemption=preemption, max_num_seqs=2, num_blocks=4)
    assert played.preempted_s == [("b", 6.0)]
    assert played.ends_s == {"a": 9.0, "b": 12.0}
    assert (played.counts.num_evictions, played.counts.recomputed_tokens) == (1, 8)


def test_it_is_swapped_if_that_is_what_the_engine_does() -> None:
    """As above, and the step waits 2 s for the two blocks on their way out and 2 s on their way back."""
    both = [(0.0, one_call("a", 9, prompt_tokens=3)), (0.0, one_call("b", 9, prompt_tokens=3))]
    played = play(both, policy="fcfs", preemption="swap", bulk_swap=False, max_num_seqs=2, num_blocks=4)
    assert played.ends_s == {"a": 11.0, "b": 16.0}
    assert (played.calls["b"].swap_s, played.counts.recomputed_tokens) == (4.0, 0)


def test_a_parked_call_that_does_not_get_its_next_block_waits() -> None:
    """ "kept" holds 1 of 5 blocks and needs a second one, "taken" holds 2; both are parked from 1 s to 2 s for "x" and "y".
    Then comes "new": it shares the blocks of "taken" and needs the 2 that are free, so "taken" must give way for "kept".
    But with it go the blocks that "new" was to share: it takes them and the free ones, and none is left.
    """

    def shared(name: str, prompt_tokens: int, output_tokens: int) -> Program:
        parts = (("same", 8), ("own", prompt_tokens - 8))
        call = Call(call_id=name, parents=(), prompt_tokens=prompt_tokens, output_tokens=output_tokens, prompt_parts=parts)
        return Program(program_id=name, workload="test", calls=(call,))

    calls = [(0.0, one_call("kept", 4, prompt_tokens=4)), (0.0, shared("taken", 8, 3)), (2.0, shared("new", 16, 1))]
    calls += [(1.0, one_call(name, 1)) for name in ("x", "y")]
    played = play(calls, quanta_s=(1.0,), preemption="park", prefix_cache=True, max_num_seqs=2, num_blocks=5)
    assert played.preempted_s == [("kept", 1.0), ("taken", 1.0)]
    assert (played.counts.num_evictions, played.counts.recomputed_tokens) == (1, 8)
    assert played.ends_s == {"x": 2.0, "y": 2.0, "new": 3.0, "taken": 5.0, "kept": 6.0}


# --- over-provisioning: "stays" and "old" run for a window of 4 steps and sink; "new" takes the place of "old" at 4 s and
# has ended at 6 s, in the middle of the window.

WINDOW = [
    (0.0, one_call("stays", 20, prompt_tokens=3)),
    (0.0, one_call("old", 12, prompt_tokens=3)),
    (1.0, one_call("new", 2, prompt_tokens=3)),
]
WINDOWS: dict[str, Any] = {"quanta_s": (4.0,), "max_num_seqs": 2, "steps_per_schedule": 4}


@pytest.mark.parametrize(("num_spare_calls", "old_ends_s"), [(1, 6.0 + 8.0), (0, 8.0 + 8.0)])
@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_a_spare_call_takes_a_finished_ones_place(num_spare_calls: int, old_ends_s: float, max_bulk_steps: int) -> None:
    played = play(WINDOW, **WINDOWS, preemption="park", num_spare_calls=num_spare_calls, max_bulk_steps=max_bulk_steps)
    assert played.preempted_s == [("old", 4.0)]
    assert played.ends_s == {"new": 6.0, "old": old_ends_s, "stays": 20.0}


def test_spare_calls_keep_their_kv_on_the_device_and_the_others_do_not() -> None:
    """3 + 4 tokens of each preempted call are known, 6 computed."""
    calls = [(0.0, one_call(name, 12, prompt_tokens=3)) for name in ("stays", "first", "second")]
    calls += [(1.0, one_call(name, 2, prompt_tokens=3)) for name in ("x", "y")]
    played = play(calls, **WINDOWS | {"max_num_seqs": 3}, preemption="recompute", num_spare_calls=1)
    assert played.preempted_s == [("first", 4.0), ("second", 4.0)]
    assert (played.counts.num_evictions, played.counts.recomputed_tokens) == (1, 6)
    # Two places are free from 6 s on and there is one spare call; the other one waits for the choice at 8 s.
    assert played.ends_s == {"x": 6.0, "y": 6.0, "stays": 12.0, "first": 14.0, "second": 16.0}


@pytest.mark.parametrize("max_bulk_steps", [1, 1024])
def test_a_place_that_nobody_has_left_stays_empty_until_the_next_choice(max_bulk_steps: int) -> None:
    """At 4 s "old" has sunk and must go. "new" enters, "big" needs all 6 blocks and waits, and so does "old", which stands
    behind it: its slot is free, but nobody has finished. At 8 s "new" has sunk too and "big" has its one step; then
    "old" has 8 steps left.
    """
    calls = [
        (0.0, one_call("old", 12, prompt_tokens=3)),
        (1.0, one_call("new", 8, prompt_tokens=3)),
        (2.0, one_call("big", 1, prompt_tokens=21)),
    ]
    played = play(
        calls, **WINDOWS, preemption="park", num_blocks=6, num_spare_calls=1, max_batch_tokens=64, max_bulk_steps=max_bulk_steps
    )
    assert played.preempted_s == [("old", 4.0), ("new", 8.0)]
    assert played.ends_s == {"big": 9.0, "new": 13.0, "old": 17.0}
