"""The command line.

    AGENTIX_TRACE_DIR=… python -m benchmarks.policy [--traces T,…] [--jobs N] [--scale S] [--out FILE.json]

Plays every policy on every trace at loads around what first come, first served can carry, and writes the numbers, run by
run as they come (an interrupted one goes on where it was), and beside them the page (.md).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentix.sim.processes import num_cores
from benchmarks.policy.cell import BOUND, POLICIES, TRACES, Cell, find_saturation, play
from benchmarks.policy.page import write_page

LOADS = (0.7, 0.9, 1.1, 1.5)
# Everybody on one seed of independent arrivals; the main ones on a second, and on bursts.
_MAIN = ("fcfs", "plas", "default", BOUND)
_SITTINGS = (("poisson", 0, POLICIES), ("gamma", 0, _MAIN), ("poisson", 1, _MAIN))


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__.splitlines()[0])
    parser.add_argument("--traces", default=",".join(TRACES), help=f"of {', '.join(TRACES)}")
    parser.add_argument("--jobs", type=int, default=num_cores(), help="processes (default: one per core)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the programs of every run")
    parser.add_argument("--out", type=Path, default=Path("docs/results/policy.json"), help="file of the numbers")
    args = parser.parse_args()
    traces = args.traces.split(",")
    unknown = [trace for trace in traces if trace not in TRACES]
    if unknown:
        parser.error(f"unknown trace {unknown[0]!r}; known: {', '.join(TRACES)}")
    document: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    document.setdefault("scale", args.scale)
    if document["scale"] != args.scale:
        parser.error(f"{args.out} holds runs of scale {document['scale']}; give another --out, or that scale")
    saturation, runs = document.setdefault("saturation_per_s", {}), document.setdefault("runs", {})
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as executor:
        wanted = [trace for trace in traces if trace not in saturation]
        for trace, rate_per_s in zip(wanted, executor.map(find_saturation, wanted, [args.scale] * len(wanted)), strict=True):
            saturation[trace] = rate_per_s
            _save(args.out, document)
        cells = {key: cell for key, cell in _cells(traces, saturation, args.scale) if key not in runs}
        futures = {executor.submit(play, cell): key for key, cell in cells.items()}
        for num_done, future in enumerate(as_completed(futures), start=1):
            runs[futures[future]] = asdict(future.result())
            _save(args.out, document)
            print(f"\r{num_done} of {len(futures)} runs", end="", file=sys.stderr, flush=True)
    write_page(args.out.with_suffix(".md"), document)
    print(f"\nsee {args.out.with_suffix('.md')}")


def _cells(traces: list[str], saturation: dict[str, float], scale: float) -> Iterator[tuple[str, Cell]]:
    for arrivals, seed, policies in _SITTINGS:
        for load in reversed(LOADS):
            for trace in traces:
                for policy in policies:
                    cell = Cell(
                        trace=trace,
                        policy=policy,
                        rate_per_s=load * saturation[trace],
                        arrivals=arrivals,
                        seed=seed,
                        scale=scale,
                    )
                    yield f"{trace} {arrivals} {seed} {load:g} {policy}", cell


def _save(path: Path, document: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    new.replace(path)


if __name__ == "__main__":
    main()
