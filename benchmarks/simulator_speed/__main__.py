"""The command line.

    python -m benchmarks.simulator_speed [CASE ...] [--repeats N] [--scale S] [--out FILE.json] [--numbers-only]

Cases: sharegpt, cluster, waiting, vidur; default: all. What other cases gave before stays in the file. Beside it the page
(.md) and the picture (.svg, needs the extra `plot`) are written anew. Recorded programs come from AGENTIX_TRACE_DIR.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.simulator_speed.page import panels, write_page
from benchmarks.simulator_speed.runs import cluster, sharegpt
from benchmarks.simulator_speed.timing import machine
from benchmarks.simulator_speed.vidur import vidur
from benchmarks.simulator_speed.waiting import waiting

CASES: dict[str, Callable[[int, float], dict[str, Any]]] = {
    "sharegpt": sharegpt,
    "cluster": cluster,
    "waiting": waiting,
    "vidur": vidur,
}


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator_speed", description="How fast the simulator is.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"any of {', '.join(CASES)}; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; best and median are kept")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size, to try things out")
    parser.add_argument("--out", type=Path, default=Path("docs/results/simulator-speed.json"), help="file of the numbers")
    parser.add_argument("--numbers-only", action="store_true", help="no picture")
    args = parser.parse_args()
    unknown = [case for case in args.cases if case not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; known: {', '.join(CASES)}")
    if args.repeats < 1 or not 0 < args.scale <= 1:
        parser.error(f"--repeats must be at least 1 and --scale above 0 and at most 1, not {args.repeats} and {args.scale}")
    if not args.numbers_only and find_spec("matplotlib") is None:
        parser.error("the picture needs matplotlib: pip install 'agentix[plot]', or give --numbers-only")
    document = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    for case in args.cases or CASES:
        print(f"{case} …", file=sys.stderr)
        measured = CASES[case](args.repeats, args.scale)
        document[case] = {"machine": machine(), "num_repeats": args.repeats, "scale": args.scale, **measured}
        args.out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    write_page(args.out.with_suffix(".md"), document)
    if "waiting" in document and not args.numbers_only:
        from benchmarks.paper.plot import draw  # noqa: PLC0415 - matplotlib is an extra

        draw(panels(document["waiting"]), args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
