"""How many calls an engine runs at once, over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """From `begin_s` to `end_s` an engine's steps served `num_calls` calls."""

    begin_s: float
    end_s: float
    num_calls: int


def batch_size_series(spans: Iterable[BatchSpan]) -> list[tuple[float, int]]:
    """When the batch size of one engine changed, and to what: (time in s, calls), 0 where no step ran.

    `spans` are in order of time and do not overlap. The value holds until the next entry; the last entry is 0. Two spans
    that follow one another with the same size make one entry.
    """
    series: list[tuple[float, int]] = []
    end_s: float | None = None
    for span in spans:
        if end_s is not None and span.begin_s > end_s:
            _change(series, end_s, 0)
        _change(series, span.begin_s, span.num_calls)
        end_s = span.end_s
    if end_s is not None:
        _change(series, end_s, 0)
    return series


def _change(series: list[tuple[float, int]], at_s: float, num_calls: int) -> None:
    if not series or series[-1][1] != num_calls:
        series.append((at_s, num_calls))
