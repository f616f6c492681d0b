"""Is it worth taking the KV of others? Worked out by hand on a room, and what it spares in a small simulation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentix.cli import app
from agentix.core import ProcessTable, Scheduler, SchedulerConfig
from agentix.core.events import CallArrived, CallPreempted, CallStarted, ProgramStarted, StepCompleted
from agentix.core.room import Room
from agentix.engine.pace import PrefillPace
from agentix.engine.settings import PluginSettings
from small_simulation import Played, one_call


class Blocks:
    """`held`: blocks by call; `needed`: what the others need."""

    def __init__(self, num_free_blocks: int, held: Mapping[str, Sequence[int]], needed: Mapping[str, int]) -> None:
        self.num_free_blocks = num_free_blocks
        self._held = held
        self._needed = needed

    def blocks_needed(self, call_id: str) -> int:
        return self._needed.get(call_id, 0)

    def blocks_of(self, call_id: str) -> Sequence[int]:
        return self._held[call_id]

    def num_holders(self, block: int) -> int:
        return sum(block in blocks for blocks in self._held.values())


def scheduler_of(*, weigh_evictions: bool = True, **options: Any) -> Scheduler:
    """Two-second quantum, then four, then the last level. `sunk` has sunk to the second; `new` has just arrived."""
    config = SchedulerConfig(
        policy="mlfq",
        **{"quanta_s": (2.0, 4.0), "starvation_ratio": None, "running_first": True} | options,
        weigh_evictions=weigh_evictions,
    )
    core = Scheduler(config, ProcessTable())
    core.apply(ProgramStarted(now=0.0, program_id="gold", program_class="gold"))
    core.apply(CallArrived(now=0.0, call_id="sunk", program_id="p"))
    core.apply(CallStarted(now=0.0, call_id="sunk"))
    core.apply(StepCompleted(now=2.0, duration_s=2.0, call_ids=("sunk",)))
    core.apply(CallPreempted(now=2.0, call_id="sunk"))
    core.apply(CallArrived(now=2.0, call_id="new", program_id="q"))
    return core


def room_of(core: Scheduler, block_cost_s: float, *, needed: int = 2) -> Room:
    """`sunk` holds three blocks, one of them with somebody who stays; no block is free."""
    blocks = Blocks(0, {"sunk": (1, 2, 3), "other": (3,)}, {"new": needed})
    return Room(blocks, core, 4, staying=set(), holders=["sunk"], block_cost_s=block_cost_s)


@pytest.mark.parametrize(("block_cost_s", "is_worth"), [(1.0, True), (1.01, False)])
def test_the_blocks_that_become_free_must_take_no_longer_to_compute_than_the_quantum(
    block_cost_s: float, is_worth: bool
) -> None:
    """Two blocks become free, since the third is shared, and the quantum is two seconds."""
    core = scheduler_of()
    room = room_of(core, block_cost_s)
    assert room.take(core.table.calls["new"]) is is_worth
    assert (room.victims, room.has_refused) == ((["sunk"], False) if is_worth else ([], True))
    assert room.take_holders(["sunk"]) == ([] if is_worth else ["sunk"])


def test_without_the_setting_the_order_alone_decides() -> None:
    core = scheduler_of(weigh_evictions=False)
    assert room_of(core, 1e9).take(core.table.calls["new"])


def test_what_is_left_of_the_quantum_counts() -> None:
    """`new` has had 1.5 of its 2 seconds when it loses its KV to somebody else."""
    core = scheduler_of()
    core.apply(CallStarted(now=2.0, call_id="new"))
    core.apply(StepCompleted(now=3.5, duration_s=1.5, call_ids=("new",)))
    core.apply(CallPreempted(now=3.5, call_id="new"))
    assert room_of(core, 0.25).take(core.table.calls["new"])
    assert not room_of(core, 0.26).take(core.table.calls["new"])


def test_a_class_with_twice_the_quantum_may_cost_twice_as_much() -> None:
    core = scheduler_of(class_weights=(("gold", 2.0),))
    core.apply(CallArrived(now=2.0, call_id="gold", program_id="gold"))
    assert core.is_worth("gold", ["sunk"], 4.0)
    assert not core.is_worth("new", ["sunk"], 4.0)


@pytest.mark.parametrize("running_first", [True, False])
def test_nobody_loses_its_kv_to_a_call_of_its_own_level(running_first: bool) -> None:
    """Unless calls of a level may be preempted for one another anyway. `old` sank before `sunk` did, and has lost its KV."""
    core = scheduler_of(running_first=running_first)
    core.apply(CallArrived(now=2.0, call_id="last", program_id="r"))
    core.apply(CallStarted(now=2.0, call_id="last"))
    core.apply(StepCompleted(now=4.0, duration_s=2.0, call_ids=("last",)))
    core.apply(CallPreempted(now=4.0, call_id="last"))
    assert core.key("sunk") < core.key("last")
    assert core.is_worth("sunk", ["last"], 0.0) is not running_first
    assert core.is_worth("new", ["last"], 0.0)


def test_a_call_that_starved_gets_in_whatever_it_costs() -> None:
    """`sunk` has two seconds of service: with β = 1 it starves after two of waiting. `rich` sinks behind it."""
    core = scheduler_of(starvation_ratio=1.0, quanta_s=(2.0, 4.0))
    core.apply(CallStarted(now=2.0, call_id="new"))
    placed = core.apply(StepCompleted(now=4.0, duration_s=2.0, call_ids=("new",)))
    assert [(p.call_id, p.level, p.reason) for p in placed] == [("new", 1, "quantum"), ("sunk", 0, "starving")]
    assert core.is_worth("sunk", ["new"], 1e9)
    core.apply(CallStarted(now=4.0, call_id="sunk"))
    core.apply(StepCompleted(now=6.0, duration_s=2.0, call_ids=("sunk",)))  # its quantum: placed anew
    assert not core.is_worth("sunk", ["new"], 1e9)


def test_calls_that_hold_kv_and_calls_that_stay_are_not_weighed() -> None:
    """They have to grow, or would stand still with what they hold."""
    core = scheduler_of()
    blocks = Blocks(0, {"new": (0,), "sunk": (1, 2, 3)}, {"new": 1})
    room = Room(blocks, core, 4, staying=set(), holders=["sunk", "new"], block_cost_s=1e9)
    assert room.take(core.table.calls["new"])
    assert room.victims == ["sunk"]


@given(st.data())
def test_a_call_that_starved_fares_as_if_nothing_were_weighed(data: st.DataObject) -> None:
    """Any holders, blocks and needs: the room decides the same for it with the setting and without."""
    decisions = []
    held = data.draw(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 9), unique=True), max_size=4))
    num_free, needed, cost_s = data.draw(st.tuples(st.integers(0, 3), st.integers(1, 8), st.floats(0, 100)))
    for weigh_evictions in (True, False):
        core = scheduler_of(starvation_ratio=1.0, weigh_evictions=weigh_evictions)
        for name in held:
            core.apply(CallArrived(now=2.0, call_id=name, program_id=name))
        core.apply(CallStarted(now=2.0, call_id="new"))
        core.apply(StepCompleted(now=4.5, duration_s=2.0, call_ids=("new",)))
        assert (core.level("sunk"), core.level("new")) == (0, 1)
        blocks = Blocks(num_free, held, {"sunk": needed})
        room = Room(blocks, core, 4, staying=set(), holders=list(held), block_cost_s=cost_s)
        decisions.append((room.take(core.table.calls["sunk"]), room.victims))
    assert decisions[0] == decisions[1]


@pytest.mark.parametrize(("weigh_evictions", "old_s", "num_evictions"), [(True, 9.0, 0), (False, 18.0, 3)])
def test_a_call_that_is_not_worth_it_waits_and_is_done_no_later(
    weigh_evictions: bool, old_s: float, num_evictions: int
) -> None:
    """Three blocks of 4, and a block takes a second to compute. "old" holds two of them when "new" comes, which needs two.

    The quantum of "new" is one second and both of old's blocks would be lost: so it waits until "old" has ended at 9 s, and
    takes four steps, two of them for its prompt. Let in at once, it sinks as it computes its prompt; the two then take turns
    at one another's cost, and it ends no sooner.
    """
    arrivals = [(0.0, one_call("old", 9, prompt_tokens=3)), (4.0, one_call("new", 3, prompt_tokens=8))]
    played = Played(
        arrivals, policy="mlfq", weigh_evictions=weigh_evictions, num_blocks=3, max_batch_tokens=4, prefix_cache=False
    )
    assert played.ends_s == {"old": old_s, "new": 13.0}
    assert played.counts.num_evictions == num_evictions


def test_the_simulator_spares_switches_as_engines_do_if_asked_to(tmp_path: Path) -> None:
    asked_for = "simulate --workload chat --programs 2 --policy plas --jobs 1 --out"
    for options, is_on in (([], False), (["--plugin-rules"], True)):
        result = CliRunner().invoke(app, [*asked_for.split(), str(tmp_path / "out"), *options])
        assert result.exit_code == 0, result.output
        scheduler = json.loads((tmp_path / "out").read_text())["config"]["engine"]["scheduler"]
        assert (scheduler["running_first"], scheduler["weigh_evictions"]) == (is_on, is_on)
        rules = PluginSettings().scheduler
        assert (rules.running_first, rules.weigh_evictions) == (True, True)


def test_the_pace_of_prompts_is_what_they_add_to_a_step() -> None:
    """A decode takes 0.1 s; a prompt of 101 tokens beside two others takes 0.6 s: 100 tokens too many, 5 ms each."""
    pace = PrefillPace()
    assert pace.s_per_token == 0.0
    pace.note(0.1, num_calls=3, num_tokens=3)
    assert pace.s_per_token == 0.0
    pace.note(0.6, num_calls=3, num_tokens=103)
    assert pace.s_per_token == pytest.approx(0.005)
    for _ in range(500):
        pace.note(0.2, num_calls=1, num_tokens=101)  # the engine has become five times as fast
    assert pace.s_per_token == pytest.approx(0.001, rel=0.01)


def test_steps_too_short_for_what_decodes_take_are_no_negative_pace() -> None:
    pace = PrefillPace()
    pace.note(1.0, num_calls=3, num_tokens=3)
    pace.note(0.5, num_calls=1, num_tokens=2)
    assert pace.s_per_token == 0.0
