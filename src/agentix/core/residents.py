"""Whose context stays in an engine's KV cache: the medium-term decision, as of an operating system that swaps processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from agentix.core.capacity import EngineCapacity

# Outsiders that do not fit before one gives up: those after them are worse, and hardly smaller.
_MAX_MISFITS = 4
# So much of the cache, one part in so many, is left to grow into where not everybody's growth is reserved.
_GROWING_SHARE = 4
_ROOM_BESIDE = 16  # or so many times what the newcomer needs itself, which for a tiny one is less


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A program of an engine, as far as it matters here.

    index_s         the smaller, the better it is to have it in: seconds until it is over, by the share of the engine it takes
    context_tokens  what must be computed again if it loses its place
    need_tokens     what it needs until its call is over
    reserve_tokens  what it is likely to need on average until it is over itself; at least as much
    is_resident     it had a place so far; is_running: it cannot lose it now; is_waiting: it has calls
    gap_s           how long its tool is likely to be busy yet, if it has no calls
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
    gap_s: float = 0.0


@dataclass(slots=True)
class _Room:
    """Free tokens of the cache: by what residents need now, and by what they are likely to need."""

    kv_tokens: int
    now: int
    later: int

    def holds(self, newcomer: Candidate) -> bool:
        """Whether it may come in: with what it will need; or, if its turn has come, with what it needs now.

        Then a share of the cache stays free for all to grow into, or many times as much as it takes itself if that is less,
        unless it would have the cache to itself.
        """
        return self.later >= newcomer.reserve_tokens or (newcomer.index_s <= 0 and self.now >= self.least_for(newcomer))

    def least_for(self, newcomer: Candidate) -> int:
        """Tokens that must be free for one whose turn has come."""
        growth = min(_ROOM_BESIDE * newcomer.need_tokens, self.kv_tokens // _GROWING_SHARE)
        return min(newcomer.need_tokens + growth, self.kv_tokens)

    def take(self, newcomer: Candidate) -> None:
        self.now -= newcomer.need_tokens
        self.later -= newcomer.reserve_tokens

    def give_back(self, loser: Candidate) -> None:
        self.now += loser.need_tokens
        self.later += loser.reserve_tokens


def choose_residents(candidates: Sequence[Candidate], capacity: EngineCapacity) -> frozenset[str]:
    """Ids of the programs that get no place. O(n log n).

    Residents keep their places while all fit. If they have grown out of the cache, the smallest of those that do not
    run lose theirs, those without a call first: that loses the least work. Then outsiders with calls come in, best first, into
    room that residents will not grow into, or in place of the worst residents that do not run, if it is worth it: what the
    outsider is better by must be more than the time that computing the loser's context again will cost everybody who has
    calls here, one prefill each. So where contexts are short or the engine is idle this is no set at all, and where they
    are long next to the work left it is a set that nobody leaves before his end; the margin is computed, not chosen.

    A program whose turn has come (index 0) need not wait for room to grow into, and while it does not fit nobody comes in past
    it: else smaller ones would take every token that is given back, and a long context would wait for ever. But for those that
    are so small that an engine full of them would leave it room enough: they are over long before.
    """
    outside = {c.program_id for c in candidates if not c.is_resident}
    room = _Room(capacity.kv_tokens, capacity.kv_tokens, capacity.kv_tokens)
    for resident in (c for c in candidates if c.is_resident):
        room.take(resident)
    losers = [c for c in candidates if c.is_resident and not c.is_running]
    for loser in sorted(losers, key=lambda c: (c.is_waiting, c.context_tokens)):
        if room.now >= 0:
            break
        outside.add(loser.program_id)
        room.give_back(loser)
    lends = _lenders(losers, candidates, capacity)
    losers = sorted((c for c in losers if c.program_id not in outside), key=lambda c: (c.program_id in lends, c.index_s))
    held_up_s = capacity.prefill_s_per_token * sum(c.is_waiting for c in candidates)
    num_misfits = 0
    queue = _best_first(c for c in candidates if c.is_waiting and c.program_id in outside)
    for place, newcomer in enumerate(queue, start=1):
        beaten = _beaten_by(newcomer, losers, room, held_up_s, lends)
        if beaten is None:
            if newcomer.index_s <= 0:
                return frozenset(outside.difference(_let_past(newcomer, queue[place:], room, capacity)))
            num_misfits += 1
            if num_misfits == _MAX_MISFITS:
                break
            continue
        outside.remove(newcomer.program_id)
        outside.update(loser.program_id for loser in beaten)
        del losers[len(losers) - len(beaten) :]
        for loser in beaten:
            room.give_back(loser)
        room.take(newcomer)
    for late in _best_first(c for c in candidates if c.is_waiting and c.program_id in outside):
        if room.holds(late):  # one that has been displaced by two smaller ones, say
            outside.remove(late.program_id)
            room.take(late)
    return frozenset(outside)


def _let_past(first: Candidate, queue: Iterable[Candidate], room: _Room, capacity: EngineCapacity) -> Iterator[str]:
    """Those of the queue behind `first`, whose turn has come, that may come in before it."""
    passing_tokens = capacity.kv_tokens // (_GROWING_SHARE * max(1, capacity.num_slots))
    if room.least_for(first) + passing_tokens * capacity.num_slots <= capacity.kv_tokens:
        for newcomer in queue:
            if newcomer.need_tokens <= passing_tokens and room.holds(newcomer):
                room.take(newcomer)
                yield newcomer.program_id


def _best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (c.index_s, c.started_s, c.program_id))


def _lenders(losers: Iterable[Candidate], candidates: Iterable[Candidate], capacity: EngineCapacity) -> frozenset[str]:
    """Residents whose tool will be busy for longer than computing their contexts again takes; nobody if no slot is idle.

    Their room is of more use to somebody who can run. That prefill holds up the program itself and whoever runs.
    """
    num_running = sum(c.is_running for c in candidates)
    if num_running >= capacity.num_slots:
        return frozenset()
    price_s = capacity.prefill_s_per_token * (1 + num_running)
    return frozenset(c.program_id for c in losers if not c.is_waiting and c.gap_s > price_s * c.context_tokens)


def _beaten_by(
    newcomer: Candidate, losers: Sequence[Candidate], room: _Room, held_up_s: float, lends: Set[str]
) -> list[Candidate] | None:
    """The worst residents, of those best first in `losers`, that the newcomer is worth displacing; None: it does not fit.

    As many as it needs and no more. `held_up_s`: what computing one token again costs, seconds over all programs; `lends`:
    those that make room for anybody, which are the last of `losers`.
    """
    left = replace(room)
    beaten: list[Candidate] = []
    for loser in reversed(losers):
        is_worth = loser.program_id in lends or loser.index_s - newcomer.index_s > held_up_s * loser.context_tokens
        if left.holds(newcomer) or not is_worth:
            break
        beaten.append(loser)
        left.give_back(loser)
    return beaten if left.holds(newcomer) else None
