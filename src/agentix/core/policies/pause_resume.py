"""Whole programs are paused and resumed so that the contexts of the others fit the engine: the discipline of ThunderAgent."""

from __future__ import annotations

from collections.abc import Sequence

from agentix.core.capacity import EngineCapacity
from agentix.core.policies.base import SchedulingPolicy
from agentix.core.program import ProgramRow

DECODE_ROOM_TOKENS = 100
PATIENCE_S = 1800.0


class PauseResume(SchedulingPolicy):
    """First come, first served among the active programs; the others are held back. Running calls stay.

    An active program needs its context and 100 tokens of room, whether it runs or its tool does. While the active ones need
    more than the engine has, the smallest is paused, those without a call first; one whose call runs is paused from the end
    of that call on. Then paused and new programs that fit are resumed, smallest first: those with a waiting call, then
    new ones, then those without a call. A call that has waited for 30 minutes makes its program active in any case.

    Source: github.com/ThunderAgent-org/ThunderAgent, wiki/Scheduler.md and ThunderAgent/scheduler/router.py. There the check
    runs every 5 s and resumes before it pauses; here, at each batch choice, it pauses and then resumes, which settles in
    one go. Not modelled: tokens shared between programs, the growth of an answer before it ends, packing several
    engines (each decides for itself, programs do not move), and estimates of tokens from characters.
    """

    preempts = False
    holds_programs = True

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        """The programs that stay paused, or become so. O(programs · log programs)."""
        overdue = [row for row in rows if _is_overdue(row, now)]
        others = [row for row in rows if not _is_overdue(row, now)]
        paused = [row for row in others if row.program_id in held or not row.has_been_served]
        active = [row for row in others if row.program_id not in held and row.has_been_served]
        room_tokens = capacity.kv_tokens - sum(_need_tokens(row) for row in (*overdue, *active))
        for row in sorted(active, key=lambda row: (bool(row.calls), _need_tokens(row))):
            if room_tokens >= 0:
                break
            paused.append(row)
            room_tokens += _need_tokens(row)
        still_paused = set()
        for row in sorted(paused, key=lambda row: (_resume_class(row), _need_tokens(row))):
            if _need_tokens(row) <= room_tokens:
                room_tokens -= _need_tokens(row)
            else:
                still_paused.add(row.program_id)
        return frozenset(still_paused)


def _need_tokens(row: ProgramRow) -> int:
    return row.context_tokens + DECODE_ROOM_TOKENS


def _is_overdue(row: ProgramRow, now: float) -> bool:
    return any(not call.running and call.waiting_s(now) >= PATIENCE_S for call in row.calls.values())


def _resume_class(row: ProgramRow) -> int:
    """0: goes on as soon as it may; 1: new; 2: its tool is busy."""
    if not row.calls:
        return 2
    return 0 if row.has_been_served else 1
