"""The default policy with one idea left out or put to an extreme: what each is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.policies.gittins import Gittins
from agentix.core.program import ProgramRow
from agentix.core.residents import Candidate, choose_residents
from benchmarks.policy.cell import BOUND

NO_FADING = f"{__name__}:NoFading"
_FOREVER = 1e9  # finite, so that 0 times it is 0


class ResidentsOnly(Gittins):
    """No learning of totals: R is what the program has attained, as in PLAS."""

    def expected_s(self, row: ProgramRow) -> float:
        """Attained service, by the program's weight."""
        return max(self._least_s, row.attained_s) / row.weight


class LearningOnly(Gittins):
    """Order alone: nobody is held back."""

    holds_programs = False


class OneClass(Gittins):
    """R from the totals of all programs, whatever their class."""

    def expected_s(self, row: ProgramRow) -> float:
        """What a program of unknown class would be expected to need."""
        return super().expected_s(row if row.history is None else replace(row, history=row.history.fallback))


class NoAging(Gittins):
    """Waiting makes up for nothing."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(replace(config, patience=_FOREVER))


class NoFading(Gittins):
    """What a program had long ago counts in full."""

    def expected_s(self, row: ProgramRow) -> float:
        """As ever, of a program without gaps."""
        return super().expected_s(replace(row, num_gaps=0))


class NoReserve(Gittins):
    """A program is reckoned at what it needs now, not at what it is likely to grow to."""

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        """As ever, with no more reserved than is needed."""
        candidates = [self._candidate(row, held, capacity, now) for row in rows]
        candidates = [replace(candidate, reserve_tokens=candidate.need_tokens) for candidate in candidates]
        if sum(candidate.need_tokens for candidate in candidates) <= capacity.kv_tokens:
            return frozenset()
        return choose_residents(candidates, capacity)


class _OtherEngine(Gittins):
    """Decides whose context stays as if the engine were another one."""

    def other(self, capacity: EngineCapacity) -> EngineCapacity:
        """What engine it is taken for."""
        raise NotImplementedError

    def held_back(
        self, rows: Sequence[ProgramRow], held: frozenset[str], capacity: EngineCapacity, now: float
    ) -> frozenset[str]:
        """As for that engine."""
        return super().held_back(rows, held, self.other(capacity), now)


class NoMargin(_OtherEngine):
    """The better outsider takes the place at once."""

    def other(self, capacity: EngineCapacity) -> EngineCapacity:
        """One where computing a context again costs nothing."""
        return replace(capacity, prefill_s_per_token=0.0)


class HardSet(_OtherEngine):
    """No resident is ever displaced."""

    def other(self, capacity: EngineCapacity) -> EngineCapacity:
        """One where computing a context again takes for ever."""
        return replace(capacity, prefill_s_per_token=_FOREVER)


class NoShare(Gittins):
    """Who stays goes by the time until a program is over alone, however much of the KV cache it takes meanwhile."""

    def _candidate(self, row: ProgramRow, held: frozenset[str], capacity: EngineCapacity, now: float) -> Candidate:
        candidate = super()._candidate(row, held, capacity, now)
        share = max(1.0, candidate.need_tokens * capacity.num_slots / capacity.kv_tokens)
        return replace(candidate, index_s=candidate.index_s / share)


# What stands in the tables: a policy, and what it is.
VARIANTS = {
    "fcfs": ("fcfs", "first come, first served"),
    "plas": ("plas", "the paper's, with the paper's rules"),
    "plas with engine rules": ("agentix.core.policies.plas:PLAS", "`running_first`, `weigh_evictions`, ten quanta"),
    "residents only": (f"{__name__}:ResidentsOnly", "PLAS's index in place of what is learnt; contexts stay as in the default"),
    "learning only": (f"{__name__}:LearningOnly", "the default's order; nobody is held back"),
    "default": ("default", "both"),
    "one class": (f"{__name__}:OneClass", "learning from all programs together"),
    "no aging": (f"{__name__}:NoAging", "waiting makes up for nothing (`patience` without end)"),
    "no fading": (NO_FADING, "service of long ago counts in full"),
    "no reserve": (f"{__name__}:NoReserve", "no room is kept for residents to grow"),
    "no margin": (f"{__name__}:NoMargin", "a better outsider displaces at once, whatever that costs"),
    "hard set": (f"{__name__}:HardSet", "no resident is ever displaced"),
    "no share": (f"{__name__}:NoShare", "who stays goes by time alone, not by time × share of the engine"),
    "true remaining work": (BOUND, "the default that knows the future: a bound"),
}
