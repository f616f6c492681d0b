"""The command line.

    python -m benchmarks.greedy_equality [--model tiny-random] [--calls 60] [--engine-cpus 1] [--out FILE] [--work DIR]

Serves the same greedy calls on real engines in float32, arm by arm (see `arms`), and compares every answer token for token.
Exit status 1 if an arm differs in more calls than `stock again` does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentix.bench.result import describe_machine
from agentix.engine.model import BUILT_IN, TINY, resolve_model
from benchmarks.greedy_equality.arms import AGAIN, ALONE, ENGINES
from benchmarks.greedy_equality.calls import make_calls
from benchmarks.greedy_equality.compare import differences, table
from benchmarks.greedy_equality.measure import Served, serve


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for answers and logs; default: a temporary one")
    parser.add_argument("--resume", action="store_true", help="take the answers that lie in --work already")
    parser.add_argument("--out", type=Path, help="JSON file with the outcome of all models and arms")
    parser.add_argument("--model", action="append", help="repeatable; default: both built-in ones")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--spread", type=float, default=2.0, help="seconds over which the calls arrive")
    parser.add_argument("--engine-cpus", help="CPUs of the engine, as taskset -c takes them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        args.work = args.work or Path(temporary)
        sys.exit(not _compare(args))


def _compare(args: argparse.Namespace) -> bool:
    """Serve, print, write; returns whether all is well."""
    outcome: dict[str, Any] = {"machine": describe_machine(), "num_calls": args.calls, "models": {}}
    is_right = True
    for name in args.model or (TINY, BUILT_IN):
        served = _serve_all(name, args)
        found = {arm: differences(each.answers, served[ALONE]) for arm, each in served.items()}
        print(f"\n{name}\n\n{table(served)}\n")
        for arm, of_arm in found.items():
            for each in of_arm:
                print(f"{arm}: call {each.call} differs from token {each.position} on, margin {each.margin}")
        is_right &= all(len(of_arm) <= len(found[AGAIN]) for of_arm in found.values())
        outcome["models"][name] = {
            arm: {**each.counts, "duration_s": each.duration_s, "differences": [asdict(d) for d in found[arm]]}
            for arm, each in served.items()
        }
    if args.out:
        args.out.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    return is_right


def _serve_all(model: str, args: argparse.Namespace) -> dict[str, Served]:
    calls = make_calls(args.calls, spread_s=args.spread)
    served: dict[str, Served] = {}
    for engine in ENGINES:
        kept = {arm: args.work / model / f"{arm.replace(' ', '-').replace(',', '')}.json" for arm in engine.arms}
        if not (args.resume and all(path.exists() for path in kept.values())):
            logs = args.work / model / f"{engine.arms[-1]} logs".replace(" ", "-").replace(",", "")
            logs.mkdir(parents=True, exist_ok=True)
            print(f"{model}: starting the engine for {'; '.join(engine.arms)}", file=sys.stderr, flush=True)
            done = asyncio.run(serve(engine, calls, resolve_model(model), logs, engine_cpus=args.engine_cpus))
            for arm, each in done.items():
                kept[arm].write_text(json.dumps(asdict(each)), encoding="utf-8")
        served |= {arm: Served(**json.loads(path.read_text(encoding="utf-8"))) for arm, path in kept.items()}
    return served


if __name__ == "__main__":
    main()
