"""Programs served to their ends by a shell that does what the scheduler says: everybody comes to an end, under every policy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import POLICIES, make_policy
from agentix.core.config import SchedulerConfig
from core_shell import Shell

Calls = list[tuple[int, int, int]]
"""Of one program: prompt tokens, steps of one second and one token, and the gap after it in seconds."""

calls = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=4)


class ClosedLoop:
    """One engine with a few slots. A program's next call arrives when the gap after the one before has passed."""

    def __init__(self, policy: str, programs: list[Calls], num_slots: int, capacity_tokens: int) -> None:
        self.shell = Shell(policy=policy, quanta_s=(1.0, 2.0), starvation_ratio=3.0, capacity_tokens=capacity_tokens)
        self.num_preemptions = 0
        self._programs = {f"p{i}": list(calls) for i, calls in enumerate(programs)}
        self._due_s = dict.fromkeys(self._programs, 0.0)
        self._steps_left: dict[str, int] = {}
        self._num_slots = num_slots
        for program_id, calls in self._programs.items():
            self.shell.begin(program_id, total_work_s=float(sum(steps for _, steps, _ in calls)))

    def run(self, max_steps: int) -> int:
        """Steps until all have ended. Fails if an engine with work stands still or it takes more than `max_steps`."""
        for step in range(max_steps + 1):
            if not self._programs:
                return step
            self._arrive()
            batch = self.shell.choose(self._num_slots)
            assert bool(batch.run) == bool(self.shell.scheduler.order)
            for call_id in batch.preempt:
                self.shell.preempt(call_id)
            self.num_preemptions += len(batch.preempt)
            for call_id in batch.admit:
                self.shell.start(call_id)
            self._serve(batch.run)
            self.shell.scheduler.validate()
        raise AssertionError(f"programs that never end: {self._programs}")

    def _arrive(self) -> None:
        for program_id, calls in self._programs.items():
            if program_id not in self._steps_left and self._due_s[program_id] <= self.shell.now:
                self.shell.arrive(program_id, program_id, prompt_tokens=calls[0][0])
                self._steps_left[program_id] = calls[0][1]

    def _serve(self, batch: tuple[str, ...]) -> None:
        self.shell.step(1.0, *batch)
        for call_id in batch:  # a call bears its program's name
            self._steps_left[call_id] -= 1
            if self._steps_left[call_id] == 0:
                _, steps, gap_s = self._programs[call_id].pop(0)
                self.shell.finish(call_id, output_tokens=steps)
                self._due_s[call_id] = self.shell.now + gap_s
                del self._steps_left[call_id]
                if not self._programs[call_id]:
                    self.shell.end(call_id)
                    del self._programs[call_id]


@pytest.mark.parametrize("policy", POLICIES.names)
@settings(max_examples=40, deadline=None)
@given(st.lists(calls, min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 1000))
def test_all_programs_come_to_an_end(policy: str, programs: list[Calls], num_slots: int, capacity_tokens: int) -> None:
    loop = ClosedLoop(policy, programs, num_slots, capacity_tokens)
    loop.run(max_steps=sum(steps + gap_s for calls in programs for _, steps, gap_s in calls) + 1)
    if not make_policy(SchedulerConfig(policy=policy)).preempts:
        assert loop.num_preemptions == 0
    assert dict(loop.shell.table.rows) == {}
