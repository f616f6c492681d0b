"""Histograms that can be added, and their bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


def _decades(first: int, last: int) -> tuple[float, ...]:
    """Bounds 1, 2.5 and 5 times each power of ten from `first` up to `last`."""
    return tuple(float(f"{digits}e{exponent}") for exponent in range(first, last) for digits in ("1", "2.5", "5"))


JCT_BOUNDS_S = _decades(-1, 5)
TOKEN_LATENCY_BOUNDS_S = _decades(-3, 2)
CALL_BOUNDS_S = _decades(-2, 4)
TTFT_BOUNDS_S = _decades(-3, 3)
SLOWDOWN_BOUNDS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


class Histogram:
    """How many values are at most each bound, and their sum. Unlike prometheus_client's, two of them can be added."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value. O(log bounds)."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Take in all that the other one has counted."""
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        self.sum += other.sum

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound, infinity last, and how many values are at most that."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            total += count
            yield bound, total
