"""The command line.

    python -m benchmarks.paper [FIGURE ...] [--jobs N] [--scale S] [--out DIR] [--numbers-only]

Without a figure: all of them, which shares runs between figures. Pictures need the extra `plot`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from agentix.core.errors import AgentixError, ConfigError
from agentix.sim.processes import num_cores
from benchmarks.paper.figure import Panel
from benchmarks.paper.figures import find_figures
from benchmarks.paper.report import document, load, save, write_page
from benchmarks.paper.sweep import play_all


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description="The figures of the paper, simulated.")
    parser.add_argument("figures", nargs="*", help="numbers of figures; default: all")
    parser.add_argument("--jobs", type=int, default=num_cores(), help="processes (default: one per core)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of programs, to try things out")
    parser.add_argument("--out", type=Path, default=Path("docs/results/paper"), help="folder of the results")
    parser.add_argument("--numbers-only", action="store_true", help="no pictures")
    args = parser.parse_args()
    try:
        _make(args)
    except AgentixError as error:
        sys.exit(f"paper: {error}")


def _make(args: argparse.Namespace) -> None:
    if args.jobs < 1 or not 0 < args.scale <= 1:
        raise ConfigError(f"--jobs must be at least 1 and --scale above 0, up to 1, not {args.jobs} and {args.scale}")
    figures = find_figures(args.figures)
    draw = None if args.numbers_only else _drawing()
    args.out.mkdir(parents=True, exist_ok=True)
    began_s = time.perf_counter()
    points = list(chain.from_iterable(figure.points(args.scale) for figure in figures))
    outcomes = play_all(points, num_processes=args.jobs, on_done=_progress)
    for figure in figures:
        numbers = figure.numbers(outcomes, args.scale)
        runs = [outcomes[point] for point in set(figure.points(args.scale))]
        save(args.out, document(figure, numbers, scale=args.scale, runs=runs))
        saved = load(args.out, figure.number)
        if saved is not None and draw is not None:
            draw(figure.panels(saved["numbers"]), args.out / f"figure-{figure.number}.svg")
        print(f"figure {figure.number}: {figure.title}", flush=True)
    write_page(args.out)
    print(f"see {args.out / 'README.md'} ({time.perf_counter() - began_s:.0f} s)")


def _drawing() -> Callable[[Sequence[Panel], Path], None]:
    if find_spec("matplotlib") is None:
        raise ConfigError("pictures need matplotlib: pip install 'agentix[plot]', or `make paper`; or say --numbers-only")
    from benchmarks.paper.plot import draw  # noqa: PLC0415 - what it needs is an extra

    return draw


def _progress(num_done: int, num_all: int) -> None:
    end = "\n" if num_done == num_all else ""
    print(f"\r{num_done} of {num_all} runs", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
