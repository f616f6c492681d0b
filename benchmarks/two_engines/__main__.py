"""The command line.

    python -m benchmarks.two_engines [--workload TRACE] [--repeats N] [--balancers A,B] [--kill] [--json FILE] [--out PAGE]

Two engines of vLLM with the plug-in, on a core each, behind one gateway. First the same multi-turn programs under each
balancer, in turns; with --kill then kill -9 of the gateway under load, and of one engine. Prints the section for the page; exit
status 1 if a call that had not streamed was lost. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentix.bench.result import describe_machine
from agentix.core.balancers import make_balancer
from agentix.core.errors import AgentixError
from agentix.engine.model import TINY
from benchmarks.two_engines.kill import kill_engine, kill_gateway
from benchmarks.two_engines.play import Document, Load, compare
from benchmarks.two_engines.report import replace_section, section
from benchmarks.two_engines.system import BLOCK_SIZE, EngineSize, two_engines

_TRACE = "tau_bench_airline.jsonl.gz"
_BALANCERS = "round_robin,least_used,program_affinity"
_BEFORE_KILL_S = 8.0


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.two_engines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", type=Path, help=f"trace with text; default: {_TRACE} in $AGENTIX_TRACE_DIR")
    parser.add_argument(
        "--model", default=TINY, help=f"a built-in model; default: {TINY}, with which prompts cost next to nothing"
    )
    parser.add_argument("--programs", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1.0, help="programs per second")
    parser.add_argument("--repeats", type=int, default=2, help="of each balancer; 0: none, for --kill alone")
    parser.add_argument("--balancers", default=_BALANCERS, help=f"default: {_BALANCERS}")
    parser.add_argument("--kill", action="store_true", help="kill an engine, then the gateway")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--out", type=Path, help="page whose section is replaced")
    args = parser.parse_args()
    balancers = args.balancers.split(",")
    try:
        for balancer in balancers:
            make_balancer(balancer)
        load = Load(workload=_find(args.workload), num_programs=args.programs, rate_per_s=args.rate)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it ends what it has started
        document = measure(EngineSize(model=args.model), load, balancers, num_repeats=args.repeats, kill=args.kill)
    except AgentixError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    document["command"] = " ".join(["python -m benchmarks.two_engines", *_shown(sys.argv[1:])])
    if args.json is not None:
        args.json.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    text = section(document)
    if args.out is not None:
        args.out.write_text(replace_section(args.out.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)
    sys.exit(bool(document.get("kill_engine", {}).get("num_lost_without_a_token")))


def measure(size: EngineSize, load: Load, balancers: Sequence[str], *, num_repeats: int, kill: bool) -> Document:
    """Start the engines, measure, stop them."""
    described: dict[str, Any] = {**asdict(load), "workload": load.workload.name}
    document: Document = {
        "machine": describe_machine(),
        "engines": {**asdict(size), "block_size": BLOCK_SIZE},
        "load": described,
    }
    with tempfile.TemporaryDirectory() as folder, two_engines(size, Path(folder)) as engines:
        work = Path(folder)
        document["runs"] = compare(engines, load, list(balancers), work, num_repeats=num_repeats)
        if kill:  # the gateway first: it needs both engines
            document["kill_gateway"] = kill_gateway(engines, load, work, after_s=_BEFORE_KILL_S)
            document["kill_engine"] = kill_engine(engines, load, work, after_s=_BEFORE_KILL_S)
    return document


def _find(workload: Path | None) -> Path:
    if workload is None and "AGENTIX_TRACE_DIR" not in os.environ:
        raise AgentixError(f"give --workload, or set AGENTIX_TRACE_DIR to the folder with {_TRACE}")
    return workload or Path(os.environ["AGENTIX_TRACE_DIR"]) / _TRACE


def _shown(arguments: Sequence[str]) -> list[str]:
    """The arguments without where things lie on this machine."""
    return [Path(argument).name if "/" in argument else argument for argument in arguments]


if __name__ == "__main__":
    main()
