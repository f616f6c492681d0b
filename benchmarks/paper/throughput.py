"""Throughput at equal latency: read off curves of latency by rate, by interpolation, and compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

Curve = Sequence[Sequence[float]]
"""Points (x, value) in order of x."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """The rate at which a curve first exceeds a latency. Outside the sweep its end stands, and `bound` says so.

    `bound` is "≥": the curve never exceeds the latency, the true rate is higher than the last; "≤": it does from the first
    rate on, the true rate is lower than that.
    """

    rate_per_s: float
    bound: str = ""

    def __str__(self) -> str:
        return f"{self.bound}{self.rate_per_s:.2f}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One rate over another. `bound` as above; "?": both are bounds that leave the ratio open on either side."""

    value: float
    bound: str = ""

    def __str__(self) -> str:
        return "–" if self.bound == "?" else f"{self.bound}{self.value:.2f}×"

    def is_at_least(self, value: float) -> bool:
        """Whether the ratio is sure to be that large."""
        return self.value >= value and self.bound in ("", "≥")


def sustained(latency: float, curve: Curve) -> Sustained:
    """The rate of a curve (rate, latency) at `latency`; between two runs log(latency) is taken to be linear in the rate."""
    if curve[0][1] > latency:
        return Sustained(curve[0][0], "≤")
    for (rate, low), (next_rate, high) in itertools.pairwise(curve):
        if high > latency:
            return Sustained(rate + (next_rate - rate) * math.log(latency / low) / math.log(high / low))
    return Sustained(curve[-1][0], "≥")


def ratio(ours: Sustained, theirs: Sustained) -> Ratio:
    """Ours over theirs; a bound of theirs bounds the ratio from the other side."""
    bounds = {ours.bound, {"≥": "≤", "≤": "≥", "": ""}[theirs.bound]} - {""}
    return Ratio(ours.rate_per_s / theirs.rate_per_s, "?" if len(bounds) > 1 else "".join(bounds))


def value_at(x: float, curve: Curve) -> float | None:
    """The curve's value at `x`, linear between its points; None outside them."""
    for (left, low), (right, high) in itertools.pairwise(curve):
        if left <= x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return None
