"""Programs that are likely to be over soonest first, and as many of them as the engine's KV cache holds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.policies.base import TOLERANCE_S, SchedulingPolicy
from agentix.core.program import CallRow, ProgramRow
from agentix.core.residents import Candidate, choose_residents

# What a program needs beyond its context before its call ends: a sixteenth of it, as contexts grow, and an answer.
_GROWTH = 17 / 16
_ANSWER_TOKENS = 64


class Gittins(SchedulingPolicy):
    """Two decisions from one number, the service that a program is expected to need until it is over.

    That number, R, is the inverse Gittins index of what the program has attained, learnt from the totals of its class
    (`ServiceHistory`); a class of which nothing is known yet goes by the totals of all, and with none at all R is what the
    program has attained, less what fades (`ProgramRow.faded_s`), as in PLAS: an engine that is never told of a program's end
    must not serve the long ones first.
    Where a gateway, which sees more programs end, says what it expects, that holds.

    Who runs: a call's level is the one whose range holds R - W / patience, W being how long its program has waited so far; so
    programs that wait for `patience` times what they still need stand on the first level, and nobody waits for ever. Within a
    level by the moment at which W reaches R if the program does nothing but wait, so that who has waited goes before who has
    just come, and of two that have waited for as long the shorter goes first. The level is asked for again when a quantum is
    used up.

    Whose context stays: see `held_back`. The paper's PLAS and ATLAS (§4.2) decide the first question alone, and where contexts
    are long they keep admitting programs whose KV then displaces that of the programs before them.
    """

    holds_programs = True

    def __init__(self, config: SchedulerConfig) -> None:
        self.quanta_s = (*config.quanta_s, math.inf)
        self._bounds_s = list(accumulate(config.quanta_s))
        self._least_s = config.quanta_s[0] / 4
        self._patience = config.patience
        self._weights = dict(config.class_weights)

    def expected_s(self, row: ProgramRow) -> float:
        """R: service that the program is expected to need until it is over, seconds, by its weights; always above 0."""
        expected_s = row.told_s if row.told_s is not None else row.learnt_s
        if expected_s is None:
            expected_s = row.faded_s
        return max(self._least_s, expected_s) / row.weight / self._weights.get(row.program_class, 1.0)

    def urgency_s(self, row: ProgramRow, now: float) -> float:
        """R less what waiting makes up for; 0 at the least, and then the program's turn has come."""
        return max(0.0, self.expected_s(row) - _waited_s(row, now) / self._patience)

    def level(self, call: CallRow, row: ProgramRow, now: float) -> int:
        """The level whose range holds the program's urgency."""
        return bisect_right(self._bounds_s, self.urgency_s(row, now) + TOLERANCE_S)

    def after_quantum(self, level: int, call: CallRow, row: ProgramRow, now: float) -> int:
        """The level of what is expected now: lower or higher than before."""
        return min(max(0, self.level(call, row, now) + call.priority), len(self.quanta_s) - 1)

    def due_s(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """When its urgency has become 0, if the program does nothing but wait."""
        return now + self.urgency_s(row, now) * self._patience

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """When it will have waited for as long as it is expected to need."""
        return now - _waited_s(row, now) + self.expected_s(row)

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        """The programs whose contexts would not fit beside those of better ones. O(programs · log programs).

        Nobody, while all contexts fit. Else as `choose_residents` says, by urgency times the share of the engine that
        a program takes, of its slots or of its KV, whichever is more: a long context in the cache for an hour is
        in the way of as many others as two of half its length. A program without a call is not over before its tool has
        answered: the mean of its gaps so far, or the present one if that is longer, counts on top.
        """
        if sum(_tokens(row, capacity)[1] for row in rows) <= capacity.kv_tokens:
            return frozenset()
        return choose_residents([self._candidate(row, held, capacity, now) for row in rows], capacity)

    def _candidate(self, row: ProgramRow, held: frozenset[str], capacity: EngineCapacity, now: float) -> Candidate:
        need_tokens, reserve_tokens = _tokens(row, capacity)
        gap_s = 0.0
        if not row.calls and row.last_completion_s is not None:
            gap_s = max(row.mean_gap_s, now - row.last_completion_s)
        return Candidate(
            program_id=row.program_id,
            index_s=(self.urgency_s(row, now) + gap_s) * max(1.0, need_tokens * capacity.num_slots / capacity.kv_tokens),
            context_tokens=row.context_tokens,
            need_tokens=need_tokens,
            reserve_tokens=reserve_tokens,
            started_s=row.started_s,
            is_resident=row.program_id not in held and row.has_been_served,
            is_running=any(call.running for call in row.calls.values()),
            is_waiting=bool(row.calls),
            gap_s=gap_s,
        )


def _waited_s(row: ProgramRow, now: float) -> float:
    """The program's time so far in which no call of it ran and no tool."""
    busy_s = max((call.scalar_s + call.service_s for call in row.calls.values()), default=0.0)
    idle_s = row.gaps_s
    if not row.calls and row.last_completion_s is not None:
        idle_s += now - row.last_completion_s
    return max(0.0, now - row.started_s - max(busy_s, row.critical_path_s) - idle_s)


def _tokens(row: ProgramRow, capacity: EngineCapacity) -> tuple[int, int]:
    """What the program needs until its call is over, and on average until it is over itself."""
    need_tokens = int(row.context_tokens * _GROWTH) + _ANSWER_TOKENS
    at_end_tokens = row.history.expected_context_tokens(row.context_tokens) if row.history is not None else 0
    return need_tokens, min(max(need_tokens, (row.context_tokens + at_end_tokens) // 2), capacity.kv_tokens)
