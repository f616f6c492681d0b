"""What programs of a class turned out to need, and what that says of one that is under way."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from agentix.core.errors import InvalidTransition
from agentix.core.events import TotalsLearnt

MIN_TOTALS = 8
MAX_TOTALS = 512
MAX_CLASSES = 1024
WORKED_OUT = "auto-"
"""Classes that a shell has worked out for programs whose clients name none begin with it; a named one takes their place."""
_NUM_POINTS = 40
_ALPHA = 0.5  # what counts: 0 the mean of times, 1 of slowdowns
_NUM_DIGITS = 9  # machines differ in the last ones of a power, and decisions are to come out the same on all
_SHORTEST_S = 0.001  # no total counts as less
_NEW_PER_LOOK = 16  # what is known is worked out anew once one in so many totals is new
_ALIKE = 2.0  # in a class of programs that are alike, none is expected to need more than so many times what a fresh one is


@dataclass(slots=True)
class ServiceHistory:
    """Total attained service (s) and last context (tokens) of the last programs of a kind that are over: what they foretell.

    Where fewer than MIN_TOTALS are known, `fallback` answers, if there is one. Only the last MAX_TOTALS count, so what
    used to be is forgotten, and memory is bounded. `num_added` changes with every change.
    """

    fallback: ServiceHistory | None = None
    totals_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TOTALS))
    contexts: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_TOTALS))
    num_added: int = 0
    _num_new: int = 0
    _sizes: list[int] = field(default_factory=list)
    _sums: list[int] = field(default_factory=list)  # of _sizes from each on, and 0
    _ages_s: list[float] = field(default_factory=list)
    _expected_s: list[float] = field(default_factory=list)
    _are_alike: bool = False

    def add(self, total_s: float, context_tokens: int = 0) -> None:
        """A program is over: it had this much service in all, and this context at the end."""
        self.totals_s.append(total_s)
        self.contexts.append(context_tokens)
        self.num_added += 1
        self._num_new += 1

    def recall(self, totals_s: Sequence[float], contexts: Sequence[int]) -> bool:
        """Go on from what was learnt of the same kind elsewhere, or earlier; whether it is more than what is known here.

        The longer memory takes the place of the shorter: both may hold the same programs, which must not count twice.
        """
        if len(totals_s) <= len(self.totals_s):
            return False
        self.totals_s.clear()
        self.contexts.clear()
        for total_s, context_tokens in zip(totals_s, contexts, strict=True):
            self.add(total_s, context_tokens)
        return True

    @property
    def is_stale(self) -> bool:
        """Whether `learn` should be called before the next question."""
        return len(self.totals_s) >= MIN_TOTALS and self._num_new * _NEW_PER_LOOK >= len(self.totals_s)

    @property
    def foretells(self) -> bool:
        """Whether anything is known, here or by the fallback."""
        return bool(self._expected_s) or (self.fallback is not None and self.fallback.foretells)

    def learn(self, under_way_s: Iterable[float]) -> None:
        """Take in what has been added; `under_way_s`: attained service of each live program. O(n log n).

        Live programs count too: each says that its total is more than what it has had (Kaplan and Meier 1958). Without
        them the totals of a busy hour would be those of its short programs.
        """
        self._num_new = 0
        totals_s, ages_s = sorted(self.totals_s), sorted(under_way_s)
        self._ages_s, survivals = _survival(totals_s, ages_s)
        self._expected_s = _inverse_gittins(self._ages_s, survivals)
        expected_s = self._expected_s
        self._are_alike = bool(expected_s) and max(expected_s) <= _ALIKE * expected_s[0] and _is_worn(totals_s, ages_s)
        self._sizes = sorted(self.contexts)
        self._sums = [*reversed(list(accumulate(reversed(self._sizes)))), 0]

    def expected_s(self, attained_s: float) -> float:
        """Service that a program which has attained so much is to be served by, in seconds: the less, the sooner.

        The inverse of its Gittins index, with a completion worth 1 / X^α, X being the total of such a program: over all amounts
        d that one may invest, the least of (E[min(X - a, d)] / E[1 / X^α; X - a <= d]) ^ (1 / (1 + α)), given X > a.
        Serving the least first minimises the mean of what is counted in a system of one server that may preempt and knows
        the distribution alone (Gittins 1979; Aalto, Ayesta and Righter 2009). With α = 0 that is the sum of the times, which
        is the long programs'; with α = 1 it is that of the slowdowns, for which a program that needs x goes by √(x · (x - a))
        (Hyytiä, Aalto and Penttinen 2012), and the long ones pay. Here α is ½. Where programs that have gone on long are
        the likelier to go on, it grows with a, as in least attained service.

        It never falls below what is expected of a fresh program, and in a class whose programs are alike it stays there: for
        those, first come, first served is best (ibid.), and the index of so few totals is all noise.

        Beyond all totals, and where nothing is known: as much as it has had. A class without totals goes by those of all
        programs, but for no less than what the program has had: it may be the first of its kind, and a long one.
        """
        if not self._expected_s:
            return attained_s if self.fallback is None else max(attained_s, self.fallback.expected_s(attained_s))
        fresh_s = self._expected_s[0]
        if self._are_alike:
            return fresh_s
        place = bisect_right(self._ages_s, attained_s) - 1
        return max(fresh_s, self._expected_s[place] if place < len(self._expected_s) else attained_s)

    def expected_context_tokens(self, context_tokens: int) -> int:
        """How long a context gets that has come so far: the mean of those that got longer, if any did.

        Where nothing is known: half as long again.
        """
        if not self._expected_s:
            return (
                self.fallback.expected_context_tokens(context_tokens) if self.fallback is not None else context_tokens * 3 // 2
            )
        place = bisect_right(self._sizes, context_tokens)
        return self._sums[place] // (len(self._sizes) - place) if place < len(self._sizes) else context_tokens


@dataclass(slots=True)
class Histories:
    """A history per program class, and one of all programs for new classes.

    At most MAX_CLASSES, the one used last at the end of `by_class`; that at its beginning goes first.
    """

    everything: ServiceHistory = field(default_factory=ServiceHistory)
    by_class: dict[str, ServiceHistory] = field(default_factory=dict)

    def of(self, program_class: str) -> ServiceHistory:
        """The history of the class, an empty one if it is new."""
        history = self.by_class.pop(program_class, None)
        if history is None:
            history = ServiceHistory(fallback=self.everything)
        self.by_class[program_class] = history
        if len(self.by_class) > MAX_CLASSES:
            del self.by_class[next(iter(self.by_class))]
        return history


def is_named(program_class: str) -> bool:
    """Whether a client has named the class; it was neither worked out, nor is there none."""
    return bool(program_class) and not program_class.startswith(WORKED_OUT)


def check_learnt(event: TotalsLearnt) -> None:
    """Raise InvalidTransition for totals that no programs can have had."""
    num_totals, num_contexts = len(event.totals_s), len(event.contexts)
    if num_totals != num_contexts or num_totals > MAX_TOTALS:
        raise InvalidTransition(f"{num_totals} totals, {num_contexts} contexts: as many of each, {MAX_TOTALS} at the most")
    if not all(0 <= figure < math.inf for figure in (*event.totals_s, *event.contexts)):
        raise InvalidTransition(f"totals and contexts cannot be negative or without end: class {event.program_class!r}")


def _survival(totals_s: Sequence[float], under_way_s: Sequence[float]) -> tuple[list[float], list[float]]:
    """Points of service from 0 on, and the share of programs that need more than each; both arguments ascending.

    Kaplan and Meier's product, over groups of totals so that there are about _NUM_POINTS points.
    """
    size = max(1, len(totals_s) // _NUM_POINTS)
    ages_s, survivals, survival = [0.0], [1.0], 1.0
    begin = 0
    while begin < len(totals_s):
        end = bisect_right(totals_s, totals_s[min(begin + size, len(totals_s)) - 1])
        num_at_risk = len(totals_s) - begin + len(under_way_s) - bisect_left(under_way_s, totals_s[begin])
        survival *= 1.0 - (end - begin) / num_at_risk
        ages_s.append(totals_s[end - 1])
        survivals.append(survival)
        begin = end
    return ages_s, survivals


def _inverse_gittins(ages_s: Sequence[float], survivals: Sequence[float]) -> list[float]:
    """For each age that a program may outlive, the least investment per completion, in seconds. O(points²)."""
    expected_s: list[float] = []
    for i, survival in enumerate(survivals[:-1]):
        if survival <= 0:
            break
        best, invested_s, worth = math.inf, 0.0, 0.0
        for j in range(i + 1, len(ages_s)):
            invested_s += (ages_s[j] - ages_s[j - 1]) * survivals[j - 1]
            worth += (survivals[j - 1] - survivals[j]) / max(ages_s[j], _SHORTEST_S) ** _ALPHA
            if worth > 0:
                best = min(best, invested_s / worth)
        expected_s.append(round(best ** (1 / (1 + _ALPHA)), _NUM_DIGITS))
    return expected_s


def _is_worn(totals_s: Sequence[float], under_way_s: Sequence[float]) -> bool:
    """Whether programs are the likelier to be over the more they have had; both arguments ascending.

    By the total time on test (Epstein and Sobel 1953): the service of all programs up to the moment at which one is over, as a
    share of all service. If age said nothing those shares would be spread evenly, with a mean of ½. Programs under way count
    with what they have had.
    """
    ages_s = sorted([*totals_s, *under_way_s])
    until_s = [0.0, *accumulate(ages_s)]
    on_test_s = 0.0
    for total_s in totals_s:
        place = bisect_right(ages_s, total_s)
        on_test_s += until_s[place] + total_s * (len(ages_s) - place)
    return on_test_s >= until_s[-1] * len(totals_s) / 2
