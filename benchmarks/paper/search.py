"""The search for quanta and β, on other seeds than those of the figures: `python -m benchmarks.paper.search [--jobs N]`.

First quanta at β = 20, then β at the best quanta; best is the lowest mean token latency over all cases, each relative to
that of the first setting. The result stands in `setup`, and is the same for every figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

from agentix.core.config import SchedulerConfig
from agentix.sim.processes import num_cores
from benchmarks.paper.point import Point
from benchmarks.paper.setup import AGENTIX_ENGINE, System
from benchmarks.paper.sweep import Outcomes, play_all

_QUANTA = {
    "1-32 s": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    "4-128 s": (4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
    "4, 16, 64 s": (4.0, 16.0, 64.0),
}
_RATIOS = (5.0, 20.0, 80.0, None)
_CASES = (("mixed", "atlas", 2.0, 240), ("chat", "plas", 4.0, 360))  # programs/s, programs: overloaded
_SEEDS = (101,)


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper.search")
    parser.add_argument("--jobs", type=int, default=num_cores())
    args = parser.parse_args()
    by_quanta = {name: SchedulerConfig(quanta_s=quanta, starvation_ratio=20.0) for name, quanta in _QUANTA.items()}
    best = _compare(by_quanta, num_processes=args.jobs)
    by_ratio = {f"{best}, β {ratio}": SchedulerConfig(quanta_s=_QUANTA[best], starvation_ratio=ratio) for ratio in _RATIOS}
    print(f"best: {_compare(by_ratio, num_processes=args.jobs)}")


def _compare(settings: Mapping[str, SchedulerConfig], *, num_processes: int) -> str:
    """Print how each setting does; returns the best one's name."""
    runs = {name: list(_points(setting)) for name, setting in settings.items()}
    outcomes = play_all((p for points in runs.values() for p in points), num_processes=num_processes, on_done=lambda *_: None)
    reference = _latencies(next(iter(runs.values())), outcomes)
    scores = {}
    for name, points in runs.items():
        relative = [value / first for value, first in zip(_latencies(points, outcomes), reference, strict=True)]
        scores[name] = prod(relative) ** (1 / len(relative))
        detail = "  ".join(
            f"{p.workload} {outcomes[p].token_latency.mean or 0:.4f}/{outcomes[p].token_latency.p95 or 0:.4f}" for p in points
        )
        print(f"{name:24} {scores[name]:.3f}  mean/P95 s/token: {detail}", flush=True)
    return min(scores, key=scores.__getitem__)


def _points(setting: SchedulerConfig) -> Iterable[Point]:
    for workload, policy, rate_per_s, num_programs in _CASES:
        for seed in _SEEDS:
            system = System.of(policy, replace(AGENTIX_ENGINE, scheduler=setting), policy)
            yield Point(system=system, workload=workload, rate_per_s=rate_per_s, num_programs=num_programs, seed=seed)


def _latencies(points: Iterable[Point], outcomes: Outcomes) -> list[float]:
    return [outcomes[point].token_latency.mean or 0.0 for point in points]


if __name__ == "__main__":
    main()
