"""The command line.

    python -m benchmarks.fidelity measure --traces DIR --out DIR --work DIR [--engine-cpus 0]
    python -m benchmarks.fidelity calibrate --out DIR [--engine-cpus 0]
    python -m benchmarks.fidelity predict --out DIR

`measure` runs a real engine for about five minutes per case and skips the cases whose results lie in --out. `calibrate` is
`agentix calibrate` for the same engine, on CPUs of one's choice. `predict` needs no engine, and prints the table.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from agentix.cost import load_card
from benchmarks.fidelity.cases import Measured, all_cases
from benchmarks.fidelity.measure import calibrate_engine, measure
from benchmarks.fidelity.predict import predict
from benchmarks.fidelity.report import count_within, prediction_table, repeat_table


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="run the cases on the real engine")
    measuring.add_argument("--traces", type=Path, required=True, help="folder of the trace files")
    measuring.add_argument("--work", type=Path, required=True, help="folder for logs")
    measuring.add_argument("--only", action="append", default=[], help="name of a case; repeatable")
    calibrating = commands.add_parser("calibrate", help="measure the card on the real engine")
    calibrating.add_argument("--minutes", type=float, default=4.0, help="how long, at least")
    for command in (measuring, calibrating):
        command.add_argument("--engine-cpus", help="CPUs of the engine, as taskset -c takes them")
    predicting = commands.add_parser("predict", help="simulate the cases that were measured")
    for command in (calibrating, predicting):
        command.add_argument("--card", type=Path, help="default: card.json in --out")
    for command in (measuring, calibrating, predicting):
        command.add_argument("--out", type=Path, default=Path("docs/results/fidelity"), help="folder of the results")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.command == "measure":
        measure(args.traces, args.out, args.work, only=args.only, engine_cpus=args.engine_cpus)
    elif args.command == "calibrate":
        calibrate_engine(args.card or args.out / "card.json", engine_cpus=args.engine_cpus, minutes=args.minutes)
    else:
        _predict(args.out, args.card or args.out / "card.json")


def _predict(out: Path, card_path: Path) -> None:
    card = load_card(card_path)
    files = [(out / f"{case.name}.json.gz", out / f"{case.name}.programs.jsonl.gz") for case in all_cases()]
    runs = [(Measured.load(result), programs) for result, programs in files if result.exists()]
    predicted = [predict(run, programs, card) for run, programs in runs]
    (out / "predicted.json").write_text(json.dumps([asdict(each) for each in predicted], indent=1) + "\n", encoding="utf-8")
    for title, paced in (("From the card alone", False), ("With the machine's pace known", True)):
        num_within, num = count_within(predicted, paced=paced)
        print(f"{title}: {num_within} of {num} numbers within bounds\n\n{prediction_table(predicted, paced=paced)}\n")
    print(f"Runs of the same case:\n\n{repeat_table([run for run, _ in runs])}")


if __name__ == "__main__":
    main()
