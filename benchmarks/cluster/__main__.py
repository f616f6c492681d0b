"""The command line.

    python -m benchmarks.cluster [PART ...] [--jobs N] [--scale S] [--out FILE.json]

Parts: balancers, replicas, skewed, offline; default: all. What other parts gave before stays in the file. Beside it the page
(.md) is written anew.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from agentix.sim.processes import num_cores
from benchmarks.cluster.balancers import Balancers
from benchmarks.cluster.offline import OfflineOrder
from benchmarks.cluster.part import Part
from benchmarks.cluster.replicas import Replicas
from benchmarks.cluster.skewed import SkewedLoad
from benchmarks.paper.report import rounded
from benchmarks.paper.setup import DEVICE, MODEL
from benchmarks.paper.sweep import play_all
from benchmarks.two_engines.report import kept_section

_ALL: tuple[Part, ...] = (Balancers(), Replicas(), SkewedLoad(), OfflineOrder())
PARTS = {part.name: part for part in _ALL}

_INTRODUCTION = f"""# Many engines

Balancers, capacity and batches in the simulator: {MODEL} on {DEVICE} by roofline, engines and programs of
[the paper's figures](paper/README.md), seed 0 and up. `python -m benchmarks.cluster` writes this page from
[cluster.json](cluster.json). **A simulation shows what a choice of engine is worth if its model of the engine is right**; it is
no measurement of a GPU. `program_affinity+min_gain=inf` is the paper's algorithm 2, `program_affinity` the same with the skew
guard ([policies.md](../policies.md#balancers---balancer))."""


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description="Many engines, simulated.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--jobs", type=int, default=num_cores(), help="processes (default: one per core)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full length of every run, to try things out")
    parser.add_argument("--out", type=Path, default=Path("docs/results/cluster.json"), help="file of the numbers")
    args = parser.parse_args()
    unknown = [name for name in args.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    if args.jobs < 1 or not 0 < args.scale <= 1:
        parser.error(f"--jobs must be at least 1 and --scale above 0, up to 1, not {args.jobs} and {args.scale}")
    parts = [PARTS[name] for name in args.parts or PARTS]
    outcomes = play_all(
        (point for part in parts for point in part.points(args.scale)), num_processes=args.jobs, on_done=_progress
    )
    document: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    for part in parts:
        runs = {point: outcomes[point] for point in part.points(args.scale)}
        document[part.name] = {
            "command": f"python -m benchmarks.cluster {part.name}",
            "python": platform.python_version(),
            "machine": platform.machine(),
            "scale": args.scale,
            "num_runs": len(runs),
            "core_s": sum(outcome.cpu_s for outcome in runs.values()),
            "numbers": part.numbers(outcomes, args.scale),
        }
    document = rounded(document)
    args.out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    write_page(args.out.with_suffix(".md"), json.loads(args.out.read_text(encoding="utf-8")))
    print(f"see {args.out.with_suffix('.md')}")


def write_page(path: Path, document: dict[str, Any]) -> None:
    """The page, with a section for each part that has been run; the one that `benchmarks.two_engines` wrote stays."""
    sections = [_section(part, document[name]) for name, part in PARTS.items() if name in document]
    measured = kept_section(path.read_text(encoding="utf-8")) if path.exists() else ""
    path.write_text("\n\n".join([_INTRODUCTION, *sections, *filter(None, [measured])]) + "\n", encoding="utf-8")


def _section(part: Part, done: dict[str, Any]) -> str:
    scale = "" if done["scale"] == 1 else f" Runs at {done['scale']:g} of their full length: a trial."
    foot = (
        f"`{done['command']}`: {done['num_runs']} runs, {done['core_s']:.0f} s of one core ({done['machine']}, "
        f"Python {done['python']}).{scale}"
    )
    return f"{part.text(done['numbers'])}\n\n{foot}"


def _progress(num_done: int, num_all: int) -> None:
    end = "\n" if num_done == num_all else ""
    print(f"\r{num_done} of {num_all} runs", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
