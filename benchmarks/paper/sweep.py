"""Many runs on many cores, and what is read off a row of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from benchmarks.paper.point import Outcome, Point, play

Outcomes = Mapping[Point, Outcome]


def play_all(points: Iterable[Point], *, num_processes: int, on_done: Callable[[int, int], None]) -> dict[Point, Outcome]:
    """Play every point once, the longest first. `on_done` is told how many are done, of how many, after each."""
    todo = sorted(set(points), key=_expected_work, reverse=True)
    outcomes: dict[Point, Outcome] = {}
    if num_processes == 1:
        for point in todo:
            outcomes[point] = play(point)
            on_done(len(outcomes), len(todo))
        return outcomes
    with ProcessPoolExecutor(num_processes, mp_context=get_context("spawn")) as executor:
        futures = {executor.submit(play, point): point for point in todo}
        try:
            for future in as_completed(futures):
                outcomes[futures[future]] = future.result()
                on_done(len(outcomes), len(todo))
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
    return outcomes


def _expected_work(point: Point) -> float:
    return point.num_programs * (10 if point.workload in ("tree", "tot") else 4 if point.workload == "mixed" else 1)


def rate_at(latency: float, curve: Sequence[tuple[float, float]]) -> float | None:
    """The rate at which a curve of (rate, latency), in order of rates, first exceeds `latency`.

    Between two points the logarithm of the latency is taken to be linear in the rate. inf if the curve never exceeds
    `latency`: it lies beyond the last rate. None if it does from the first rate on.
    """
    if not curve or curve[0][1] > latency:
        return None
    for (rate, low), (next_rate, high) in itertools.pairwise(curve):
        if high > latency:
            return rate + (next_rate - rate) * math.log(latency / low) / math.log(high / low)
    return math.inf


def value_at(x: float, curve: Sequence[Sequence[float]]) -> float | None:
    """The curve's value at `x`, linear between its points (x, value); None outside them."""
    for (left, low), (right, high) in itertools.pairwise(curve):
        if left <= x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return None


def known_rate(latency: float, curve: Sequence[tuple[float, float]]) -> float | None:
    """`rate_at`, with the last rate of the sweep, a lower bound, in place of inf, which JSON does not have."""
    rate = rate_at(latency, curve)
    return curve[-1][0] if rate == math.inf else rate


def ratio_text(ours: float | None, theirs: float | None) -> str:
    """How many times as much; a rate of None is one below the sweep, so that there is no ratio."""
    if not ours:
        return "none at all against"
    return f"{ours / theirs:.2f}×" if theirs else "any number of times"
