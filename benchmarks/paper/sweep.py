"""Many runs on many cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    return point.num_programs * (10 if point.workload == "tree" else 4 if point.workload == "mixed" else 1)
