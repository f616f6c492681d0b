"""The policy seam: at which level, and in what order within it, is a call served?"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.program import CallRow, ProgramRow

# Service that is a sum of steps counts as having reached a bound or a quantum despite rounding.
TOLERANCE_S = 1e-9


class SchedulingPolicy:
    """Answers for one call at a time, from the call, its program's row and `now`; keeps no state of its own.

    Calls are served in the order (level, rank, entry), entry being the count of entries to a level, which makes the
    order total. A policy decides level and rank; quanta, demotion, promotion and batch choice are the Scheduler's.
    Subclasses override what differs; this class is first come, first served on a single level without a quantum.

    Attributes:
        quanta_s: service granted per level, in seconds; its length is the number of levels; math.inf = no quantum.
        reranks: the rank of a call may change without an event of that call, so the order must be
            established afresh (O(n log n)) before each batch choice.
        starves_by_program: waiting and service of the whole program count towards starvation, not the call's alone.
        clairvoyant: the policy needs what only a simulation can know, so real engines refuse it.
        preempts: a running call gives way to a better one that waits. If not, running calls stand before all that wait
            and only an engine that runs out of KV blocks takes one off.
        holds_programs: `held_back` is to be asked before each batch choice.
        ignores_programs: programs do not matter to it, so an engine leaves the KV between their calls as it would be.
    """

    quanta_s: tuple[float, ...] = (math.inf,)
    reranks: bool = False
    starves_by_program: bool = True
    clairvoyant: bool = False
    preempts: bool = True
    holds_programs: bool = False
    ignores_programs: bool = False

    def __init__(self, config: SchedulerConfig) -> None:
        del config

    def level(self, call: CallRow, row: ProgramRow, now: float) -> int:
        """The level (0 = first) at which a call enters on arrival."""
        del call, row, now
        return 0

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """Place within the level, smaller first, asked at each entry. The default leaves it to the entry order."""
        del call, row, now
        return 0.0

    def ranks(self, calls: Sequence[tuple[CallRow, ProgramRow]], now: float) -> Sequence[float]:
        """The ranks of all calls of an engine, in the order given, asked before each choice if the policy `reranks`.

        To be overridden where the rank of one call depends on the others.
        """
        return [self.rank(call, row, now) for call, row in calls]

    def after_quantum(self, level: int, call: CallRow, row: ProgramRow, now: float) -> int:
        """The level at which a call re-enters, at the tail, when it has used up its quantum at `level`."""
        return level

    def due_s(self, call: CallRow, row: ProgramRow, now: float) -> float | None:
        """When a call that enters a level now is to move to the first one if it still waits then, asked at each entry.

        None leaves it to starvation: once waiting is so many times service.
        """
        del call, row, now
        return None

    def retention_s(self, row: ProgramRow, now: float) -> float:
        """For how long an engine keeps the KV of the program's call that has just ended for the program's next call.

        Longer than it would by itself, that is; it may give the blocks up earlier if running calls need them.
        """
        del row, now
        return 0.0

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        """The programs none of whose waiting calls may start now; those that run go on.

        Asked before batch choices of an engine of that capacity; where programs are very many, less often, and not about all.
        `rows` are the programs whose latest call came to that engine, with or without an active call, in the order in which
        they came; `held` is what the last answer was. The same question asked twice must have the same answer, and an
        engine may take an answer to hold until a call arrives or ends.
        """
        del rows, held, capacity, now
        return frozenset()


class MultiLevelPolicy(SchedulingPolicy):
    """Levels of growing attained service (paper §4.2.2): a call enters the level whose range holds its priority.

    MLFQ, PLAS and ATLAS are this one discipline with three accounts of attained service. Within a level: first come,
    first served. A used-up quantum sends the call one level down; the last level has no quantum.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.quanta_s = (*config.quanta_s, math.inf)
        self._bounds_s = list(accumulate(config.quanta_s))
        self._weights = dict(config.class_weights)

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """p(c), the priority of an arriving call: service attained by what this policy accounts for, in seconds."""
        raise NotImplementedError

    def level(self, call: CallRow, row: ProgramRow, now: float) -> int:
        """The i with lo_i <= p(c) < hi_i, both bounds times the weights of the program and its class."""
        attained_s = self.attained_s(call, row) / self._weights.get(row.program_class, 1.0) / row.weight
        return bisect_right(self._bounds_s, attained_s + TOLERANCE_S)

    def after_quantum(self, level: int, call: CallRow, row: ProgramRow, now: float) -> int:
        """One level down."""
        return level + 1
