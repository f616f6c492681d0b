"""A call's place in a scheduler's queue."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentix.core.program import CallRow, ProgramRow

Key = tuple[int, float, int, str]
"""The total order of a queue: (level, rank, entry, call id), smaller first."""


@dataclass(slots=True)
class Entry:
    """A call's place in the queue: `key`, made of its level, the policy's rank in it, and whether the call runs.

    `reset_*_s` are what its own W and T were when it was last promoted (seconds). It cannot starve before `safe_until_s`,
    however it is served, unless its program's totals change.
    """

    key: Key
    level: int
    rank: float
    quantum_left_s: float
    reset_waiting_s: float = 0.0
    reset_service_s: float = 0.0
    safe_until_s: float = -math.inf

    def starves_at(self, call: CallRow, row: ProgramRow, *, beta: float, by_program: bool) -> float:
        """When (W_p + W_c) / (T_p + T_c) reaches β if the call is not served until then (paper §4.2.2).

        `by_program` False leaves out what the program had before the call.
        """
        program_s, program_waiting_s = (row.service_s, row.waiting_s) if by_program else (0.0, 0.0)
        service_s = program_s + call.service_s - self.reset_service_s
        own_waiting_s = beta * service_s - program_waiting_s + self.reset_waiting_s
        return call.arrived_s + call.service_s + own_waiting_s
