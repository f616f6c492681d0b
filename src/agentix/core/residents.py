"""Whose context stays in an engine's KV cache: the medium-term decision, as of an operating system that swaps processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentix.core.capacity import EngineCapacity

# Outsiders that do not fit before one gives up: those after them are worse, and hardly smaller.
_MAX_MISFITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A program of an engine, as far as it matters here.

    index_s         the smaller, the better it is to have it in: seconds until it is over, by the share of the engine it takes
    context_tokens  what must be computed again if it loses its place
    need_tokens     what it needs until its call is over
    reserve_tokens  what it is likely to need on average until it is over itself; at least as much
    is_resident     it had a place so far; is_running: it cannot lose it now; is_waiting: it has calls
    """

    program_id: str
    index_s: float
    context_tokens: int
    need_tokens: int
    reserve_tokens: int
    started_s: float
    is_resident: bool
    is_running: bool
    is_waiting: bool


def choose_residents(candidates: Sequence[Candidate], capacity: EngineCapacity) -> frozenset[str]:
    """Ids of the programs that get no place. O(n log n).

    Residents keep their places while all fit. If they have grown out of the cache, the smallest of those that do not
    run lose theirs, those without a call first: that loses the least work. Then outsiders with calls come in, best first, into
    room that residents will not grow into, or in place of the worst residents that do not run, if it is worth it: what the
    outsider is better by must be more than the time that computing the loser's context again will cost everybody who has
    calls here, one prefill each. So where contexts are short or the engine is idle this is no set at all, and where they
    are long next to the work left it is a set that nobody leaves before his end; the margin is computed, not chosen.
    """
    outside = {c.program_id for c in candidates if not c.is_resident}
    room = capacity.kv_tokens - sum(c.need_tokens for c in candidates if c.is_resident)
    losers = [c for c in candidates if c.is_resident and not c.is_running]
    if room < 0:
        for loser in sorted(losers, key=lambda c: (c.is_waiting, c.context_tokens)):
            outside.add(loser.program_id)
            losers.remove(loser)
            room += loser.need_tokens
            if room >= 0:
                break
    room = capacity.kv_tokens - sum(c.reserve_tokens for c in candidates if c.program_id not in outside)
    losers.sort(key=lambda c: c.index_s)
    held_up_s = capacity.prefill_s_per_token * sum(c.is_waiting for c in candidates)
    num_misfits = 0
    for newcomer in _best_first(c for c in candidates if c.is_waiting and not c.is_resident):
        beaten, freed = _beaten_by(newcomer, losers, room, held_up_s)
        if newcomer.reserve_tokens > room + freed:
            num_misfits += 1
            if num_misfits == _MAX_MISFITS:
                break
            continue
        outside.remove(newcomer.program_id)
        outside.update(loser.program_id for loser in beaten)
        del losers[len(losers) - len(beaten) :]
        room += freed - newcomer.reserve_tokens
    for late in _best_first(c for c in candidates if c.is_waiting and c.program_id in outside):
        if late.reserve_tokens <= room:  # one that has been displaced by two smaller ones, say
            outside.remove(late.program_id)
            room -= late.reserve_tokens
    return frozenset(outside)


def _best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (c.index_s, c.started_s, c.program_id))


def _beaten_by(newcomer: Candidate, losers: Sequence[Candidate], room: int, held_up_s: float) -> tuple[list[Candidate], int]:
    """The worst residents, of those best first in `losers`, that the newcomer is worth displacing, and their tokens.

    As many as it needs and no more. `held_up_s`: what computing one token again costs, seconds over all programs.
    """
    beaten: list[Candidate] = []
    freed = 0
    for loser in reversed(losers):
        if room + freed >= newcomer.reserve_tokens:
            break
        if loser.index_s - newcomer.index_s <= held_up_s * loser.context_tokens:
            break
        beaten.append(loser)
        freed += loser.reserve_tokens
    return beaten, freed
