"""The order of a batch: what starts first, and how many programs at once, until the last is done."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.cluster.part import Numbers, table
from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS, VLLM_OPT, System
from benchmarks.paper.sweep import Outcomes

_NUM_ENGINES = 2
_NUM_PROGRAMS = 500
_SEEDS = (0, 1)
_WINDOWS = (16, 32, 64, 128, None)  # programs at once and engine; None: all
_SYSTEMS: dict[str, System] = {"FCFS": VLLM_OPT, "ATLAS": ATLAS}
_ORDERS = {"as given": False, "longest first": True}


def _points(system: System, window: int | None, longest_first: bool, scale: float) -> list[Point]:
    return [
        Point(
            system=system,
            workload="mixed",
            rate_per_s=math.inf,
            num_programs=scaled(_NUM_PROGRAMS, scale),
            num_engines=_NUM_ENGINES,
            max_programs=None if window is None else window * _NUM_ENGINES,
            longest_first=longest_first,
            seed=seed,
        )
        for seed in _SEEDS
    ]


class OfflineOrder:
    """The part."""

    name = "offline"

    def points(self, scale: float) -> Sequence[Point]:
        """Both orders under both policies, by concurrency."""
        return [
            point
            for system in _SYSTEMS.values()
            for longest_first in _ORDERS.values()
            for window in _WINDOWS
            for point in _points(system, window, longest_first, scale)
        ]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Makespans by seed, by policy, order and concurrency."""
        return {
            "num_engines": _NUM_ENGINES,
            "num_programs": scaled(_NUM_PROGRAMS, scale),
            "windows": _WINDOWS,
            "makespan_s": {
                f"{policy}, {order}": [
                    [outcomes[point].makespan_s for point in _points(system, window, longest_first, scale)]
                    for window in _WINDOWS
                ]
                for policy, system in _SYSTEMS.items()
                for order, longest_first in _ORDERS.items()
            },
        }

    def text(self, numbers: Numbers) -> str:
        """Mean makespans, and what the order is worth."""
        spans = {name: [math.fsum(each) / len(each) for each in by_window] for name, by_window in numbers["makespan_s"].items()}
        head = ("programs at once, each engine", *(str(window) if window else "all" for window in numbers["windows"]))
        rows = [[name, *(f"{span_s:.0f}" for span_s in by_window)] for name, by_window in spans.items()]
        worth = [
            f"{policy} {min(spans[f'{policy}, longest first']) / min(spans[f'{policy}, as given']) - 1:+.0%}"
            for policy in _SYSTEMS
        ]
        return "\n\n".join(
            [
                "## The order of a batch",
                f"{numbers['num_programs']} programs of Mixed on {numbers['num_engines']} engines, all there from the "
                f"beginning: makespan in seconds, mean of {len(_SEEDS)} draws. *As given* is a random order. Longest first, "
                f"each at its best concurrency: {', '.join(worth)}.",
                table(head, rows),
            ]
        )
