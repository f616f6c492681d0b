"""How sure is a mean over repeats? Student's confidence intervals, of values and of ratios. Nothing is random."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

# The 97.5th percentile of Student's t by degrees of freedom, from 1 on (any table of the distribution).
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over `num_values` repeats with its 95 % confidence interval; below two values nobody knows it (None)."""

    centre: float
    low: float | None
    high: float | None
    num_values: int

    @property
    def is_below_one(self) -> bool:
        """Of a ratio: whether it is less than 1 beyond what chance explains."""
        return self.high is not None and self.high < 1.0

    @property
    def is_above_one(self) -> bool:
        """Of a ratio: whether it is more than 1 beyond what chance explains."""
        return self.low is not None and self.low > 1.0


def mean_interval(values: Iterable[float | None]) -> Interval | None:
    """The mean of the values there are, ± t(n-1) · s / √n; None without any.

    Repeats must be independent of one another: runs with other seeds are, the programs of one run are not, since they queue
    behind each other.
    """
    present = [value for value in values if value is not None]
    if not present:
        return None
    centre, n = fmean(present), len(present)
    if n < 2:
        return Interval(centre=centre, low=None, high=None, num_values=n)
    half = t_975(n - 1) * stdev(present) / math.sqrt(n)
    return Interval(centre=centre, low=centre - half, high=centre + half, num_values=n)


def ratio_interval(pairs: Iterable[tuple[float | None, float | None]]) -> Interval | None:
    """Of (value, base) per repeat, the geometric mean of value ÷ base and its interval, taken on logarithms.

    Ratios within a repeat, where both sides served the same programs, are compared; what differs between repeats does not
    blur them. Pairs without two values above 0 do not count.
    """
    logs = mean_interval(math.log(value / base) for value, base in pairs if value and base and value > 0 and base > 0)
    if logs is None:
        return None
    low, high = (None if bound is None else math.exp(bound) for bound in (logs.low, logs.high))
    return Interval(centre=math.exp(logs.centre), low=low, high=high, num_values=logs.num_values)


def t_975(degrees: int) -> float:
    """The 97.5th percentile of Student's t, of at least 1 degree of freedom.

    From the table up to 30 degrees; beyond, the expansion of Cornish and Fisher, good to four digits there.
    """
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
