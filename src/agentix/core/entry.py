"""A call's place in a scheduler's queue."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agentix.core.program import CallRow, ProgramRow

Key = tuple[int, float, int, str]
"""The total order of a queue: (level, rank, entry, call id), smaller first."""


@dataclass(slots=True)
class Entry:
    """A call's place in the queue: `key`, made of its level, the policy's rank in it, and whether the call runs.

    `reset_*_s` are what its own W and T were when it was last promoted (seconds). It cannot starve before `safe_until_s`,
    however it is served, unless its program's totals change. `is_promoted`: it stands here because it starved, and
    takes KV at any cost. `due_s`: when it is to move to the first level, if the policy says so; None: as starvation has it.
    """

    key: Key
    level: int
    rank: float
    quantum_left_s: float
    reset_waiting_s: float = 0.0
    reset_service_s: float = 0.0
    safe_until_s: float = -math.inf
    is_promoted: bool = False
    due_s: float | None = None

    @property
    def call_id(self) -> str:
        """The call that stands here."""
        return self.key[-1]

    def starves_at(self, call: CallRow, row: ProgramRow, *, beta: float, by_program: bool) -> float:
        """When (W_p + W_c) / (T_p + T_c) reaches β if the call is not served until then (paper §4.2.2).

        `by_program` False leaves out what the program had before the call.
        """
        program_s, program_waiting_s = (row.service_s, row.waiting_s) if by_program else (0.0, 0.0)
        service_s = program_s + call.service_s - self.reset_service_s
        own_waiting_s = beta * service_s - program_waiting_s + self.reset_waiting_s
        return call.arrived_s + call.service_s + own_waiting_s

    def is_worth(self, cost_s: float, victims: Iterable[Entry], *, running_first: bool) -> bool:
        """Whether the call, which holds no KV, may take that of `victims`, which takes `cost_s` seconds to compute again.

        All that entering now gives the call for sure is the service left of its quantum: after that it has to stand behind
        others again. So the device must not spend more on recomputing than that; if it did at every level, it would do little
        else. Over calls of its own level it gains nothing where those that run go first (`running_first`): whoever
        has KV then finishes before it. Two such calls can not take turns at each other's cost, since a call that has lost
        its KV gets it back from calls of worse levels alone. A call that starved does not ask what it costs.

        Nobody waits for ever: only finitely many calls stand before it, those that hold KV go on and end or sink, and no
        call without KV passes by one that waits for blocks.
        """
        if self.is_promoted:
            return True
        if running_first and any(victim.level == self.level for victim in victims):
            return False
        return cost_s <= self.quantum_left_s
