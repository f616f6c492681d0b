"""What is worth proposing? Pure: from the numbers of arms to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from agentix.metrics.interval import Interval, mean_interval, ratio_interval
from agentix.recommend.config import Arm
from agentix.recommend.play import JCT, NAMES, TAIL, WAIT_SHARE, Numbers, Outcomes

LEAST_GAIN = 0.03  # of the mean response time: less is not worth a change, and below what a simulation can promise
_TAIL_MAY = 1.05  # so much worse may the tail look where candidates are tried
_LITTLE_WAITING = 0.05  # share of time: programs that hardly wait cannot be helped by order


class Verdict(StrEnum):
    """What to do."""

    CHANGE = "change"  # the proposal is better beyond chance
    KEEP = "keep"  # nothing is better than what is in use
    NOISE = "within noise"  # what looked best is not better beyond chance
    SMALL = "too small"  # it is better beyond chance, and hardly
    TAIL = "worse tail"  # it is better in the mean, at the expense of the slowest programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm beside what is in use: intervals of both's numbers, and of their ratios; less than 1 is better."""

    arm: Arm
    values: Mapping[str, Interval]
    base: Mapping[str, Interval]
    ratios: Mapping[str, Interval]

    @property
    def is_never_slower(self) -> bool:
        """Whether mean and tail of the response times are better than now beyond chance."""
        return all(name in self.ratios and self.ratios[name].is_below_one for name in (JCT, TAIL))


def choose(trials: Outcomes, now: Arm) -> Arm:
    """The arm with the least mean response time in the trials; `now` unless another is better, also not in the tail."""
    base = trials[now]

    def ratio(arm: Arm, name: str) -> float:
        found = ratio_interval((own[name], other[name]) for own, other in zip(trials[arm], base, strict=True))
        return 1.0 if found is None else found.centre

    able = [arm for arm in trials if ratio(arm, TAIL) <= _TAIL_MAY]
    best = min(able, key=lambda arm: ratio(arm, JCT), default=now)
    return best if ratio(best, JCT) < 1.0 else now


def compare(arm: Arm, own: Sequence[Numbers], base: Sequence[Numbers]) -> Comparison:
    """The comparison on variants that both have played, in the same order."""
    return Comparison(
        arm=arm,
        values=_intervals(own),
        base=_intervals(base),
        ratios={
            name: found
            for name in NAMES
            if (found := ratio_interval((o[name], b[name]) for o, b in zip(own, base, strict=True))) is not None
        },
    )


def judge(comparison: Comparison, now: Arm) -> Verdict:
    """The verdict on what was chosen, from variants on which it was not chosen."""
    if comparison.arm == now or JCT not in comparison.ratios:
        return Verdict.KEEP
    mean, tail = comparison.ratios[JCT], comparison.ratios.get(TAIL)
    if not mean.is_below_one:
        return Verdict.NOISE
    if tail is not None and tail.is_above_one:
        return Verdict.TAIL
    return Verdict.SMALL if mean.centre > 1 - LEAST_GAIN else Verdict.CHANGE


def hardly_waits(base: Sequence[Numbers]) -> bool:
    """Whether the programs hardly wait in engines as it is."""
    shares = [share for numbers in base if (share := numbers[WAIT_SHARE]) is not None]
    return bool(shares) and fmean(shares) < _LITTLE_WAITING


def _intervals(numbers: Sequence[Numbers]) -> dict[str, Interval]:
    found = {name: mean_interval(of_variant[name] for of_variant in numbers) for name in (*NAMES, WAIT_SHARE)}
    return {name: interval for name, interval in found.items() if interval is not None}
