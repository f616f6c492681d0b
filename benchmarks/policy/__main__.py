"""The default policy beside the others on recorded programs, in the simulator.

    AGENTIX_TRACE_DIR=… python -m benchmarks.policy [--traces T,…] [--again P,…] [--jobs N] [--scale S] [--out FILE.json]

Plays every policy on every trace at loads around what first come, first served can carry, and writes the numbers as they
come (an interrupted run goes on where it was) and beside them the page (.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.policy.cell import BOUND, POLICIES, TRACES, Cell, find_saturation, play_as_mapping
from benchmarks.policy.page import write_page
from benchmarks.policy.runs import Runs, Task, add_options, names, open_document, play_missing, save

LOADS = (0.7, 0.9, 1.1, 1.5)
# Everybody on one seed of independent arrivals; the main ones on a second, and on bursts.
_MAIN = ("fcfs", "plas", "default", BOUND)
_SITTINGS = (("poisson", 0, POLICIES), ("gamma", 0, _MAIN), ("poisson", 1, _MAIN))


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", default=",".join(TRACES), help=f"of {', '.join(TRACES)}")
    add_options(parser, out=Path("docs/results/policy.json"))
    args = parser.parse_args()
    traces = names(parser, args.traces, TRACES)
    document = open_document(parser, args, name_of=lambda key: key.split(" ")[-1])
    saturation: Runs = document.setdefault("saturation_per_s", {})

    def run(function: Callable[..., Any], tasks: Mapping[str, Task], into: Runs) -> None:
        play_missing(function, tasks, into, num_processes=args.jobs, on_done=lambda: _write(args.out, document))

    run(find_saturation, {trace: (trace, args.scale) for trace in traces}, saturation)
    run(play_as_mapping, {key: (cell,) for key, cell in _cells(traces, saturation, args.scale).items()}, document["runs"])
    _write(args.out, document)
    print(f"see {args.out.with_suffix('.md')}")


def _write(path: Path, document: dict[str, Any]) -> None:
    save(path, document)
    write_page(path.with_suffix(".md"), document)


def _cells(traces: list[str], saturation: Mapping[str, float], scale: float) -> dict[str, Cell]:
    return {
        f"{trace} {arrivals} {seed} {load:g} {policy}": Cell(
            trace=trace, policy=policy, rate_per_s=load * saturation[trace], arrivals=arrivals, seed=seed, scale=scale
        )
        for arrivals, seed, policies in _SITTINGS
        for load in reversed(LOADS)
        for trace in traces
        for policy in policies
    }


if __name__ == "__main__":
    main()
