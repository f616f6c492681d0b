"""What does the gateway cost? One run, arms in turns.

    python -m benchmarks.gateway
    python -m benchmarks.gateway --peers litellm,vllm-router,smg --venvs DIR

Prints the table in Markdown. The engine is a mock with set delays: only what lies between it and the client is measured. The
gateway has a core to itself, where the others stand still meanwhile; mock engine and load generator share the others. A peer is
installed into a virtual environment of its own below DIR if it is not there; one that does not install or start is reported
as such.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from agentix.core.errors import AgentixError
from benchmarks.gateway.arms import Arm, agentix, direct, other
from benchmarks.gateway.measure import QUICK, Measurement, Plan
from benchmarks.gateway.mock_engine import DELAYS, SHORT
from benchmarks.gateway.peers import PEERS, install
from benchmarks.gateway.process import BenchmarkError, cpus
from benchmarks.gateway.report import report, write_section
from benchmarks.simulator_speed.timing import machine


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it works; the numbers mean nothing")
    parser.add_argument("--peers", default="", help=f"other gateways, separated by commas: {', '.join(PEERS)}")
    parser.add_argument("--venvs", type=Path, help="folder of the peers' virtual environments")
    parser.add_argument("--before", type=Path, metavar="SRC", help="the folder `src` of an earlier version, to compare with")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--out", type=Path, help="page whose section is replaced by the table")
    args = parser.parse_args()
    names = [name for name in args.peers.split(",") if name]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; known: {', '.join(PEERS)}")
    if names and args.venvs is None:
        parser.error("--peers needs --venvs DIR, a folder to install them in")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it ends what it has started
    try:
        measure(QUICK if args.quick else Plan(), names, args.venvs, args.before, args.json, args.out)
    except AgentixError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def measure(
    plan: Plan, names: list[str], venvs: Path | None, before: Path | None, numbers: Path | None, page: Path | None
) -> None:
    """Measure and report."""
    gateway_cpus, other_cpus = cpus()
    arms, errors = [direct(), agentix(gateway_cpus)], {}
    if before is not None:
        arms.append(agentix(gateway_cpus, before))
    for name in names:
        try:
            arms.append(_peer(name, venvs or Path(), gateway_cpus))
        except BenchmarkError as error:
            errors[name] = str(error)
    load_average = f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory() as work:
        measurement = Measurement(plan, cpus=other_cpus, work=Path(work), on_progress=_tell)
        measured = measurement.run(arms, errors)
    document = {
        "machine": {**machine(), "num_cores": os.cpu_count()},
        "cpus": {"gateway": gateway_cpus, "others": other_cpus},
        "load_average": load_average,
        "engine_delay_s": DELAYS[SHORT].first_s,
        **measured,
    }
    if numbers is not None:
        numbers.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    text = report(document)
    if page is not None:
        write_section(page, text)
    print(text)


def _peer(name: str, venvs: Path, gateway_cpus: str | None) -> Arm:
    peer = PEERS[name]
    _tell(f"installing {peer.requirement}, if it is not there")
    return other(peer, install(peer, venvs.absolute()), gateway_cpus)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
