"""The command line.

    python -m benchmarks.fidelity calibrate SITTING [--out DIR] [--engine-cpus 0]
    python -m benchmarks.fidelity measure SITTING --traces DIR --work DIR [--out DIR] [--engine-cpus 0]
    python -m benchmarks.fidelity predict [SITTING] [--out DIR]

`calibrate` is `agentix calibrate` for the engine of the cases, on CPUs of one's choice. `measure` runs that engine for
about five minutes per case and skips the cases whose results are there. `predict` needs no engine, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from agentix.cost import load_card
from benchmarks.fidelity.cases import SITTINGS, Measured, cases_of
from benchmarks.fidelity.measure import calibrate_engine, measure
from benchmarks.fidelity.predict import predict
from benchmarks.fidelity.report import count_within, prediction_table, repeat_table


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    calibrating = commands.add_parser("calibrate", help="measure the card on the real engine")
    calibrating.add_argument("--minutes", type=float, default=4.0, help="how long, at least")
    measuring = commands.add_parser("measure", help="run the cases on the real engine")
    measuring.add_argument("--traces", type=Path, required=True, help="folder of the trace files")
    measuring.add_argument("--work", type=Path, required=True, help="folder for logs")
    predicting = commands.add_parser("predict", help="simulate the cases that were measured")
    for command in (calibrating, measuring):
        command.add_argument("sitting", choices=SITTINGS)
        command.add_argument("--engine-cpus", help="CPUs of the engine, as taskset -c takes them")
    predicting.add_argument("sitting", nargs="?", choices=SITTINGS, help="default: all")
    for command in (calibrating, measuring, predicting):
        command.add_argument("--out", type=Path, default=Path("docs/results/fidelity"), help="folder of the sittings")
    args = parser.parse_args()
    if args.command == "predict":
        for sitting in [args.sitting] if args.sitting else SITTINGS:
            _predict(sitting, args.out / sitting)
        return
    folder = args.out / args.sitting
    folder.mkdir(parents=True, exist_ok=True)
    if args.command == "measure":
        measure(cases_of(args.sitting), args.traces, folder, args.work, engine_cpus=args.engine_cpus)
    else:
        calibrate_engine(folder / "card.json", engine_cpus=args.engine_cpus, minutes=args.minutes)


def _predict(sitting: str, folder: Path) -> None:
    card = load_card(folder / "card.json")
    files = [(folder / f"{case.name}.json.gz", folder / f"{case.name}.programs.jsonl.gz") for case in cases_of(sitting)]
    runs = [(Measured.load(result), programs) for result, programs in files if result.exists()]
    predicted = [predict(run, programs, card) for run, programs in runs]
    document = json.dumps([asdict(each) for each in predicted], indent=1) + "\n"
    (folder / "predicted.json").write_text(document, encoding="utf-8")
    print(f"# {sitting}\n")
    for title, paced in (("From the card alone", False), ("With the machine's pace known", True)):
        num_within, num = count_within(predicted, paced=paced)
        print(f"{title}: {num_within} of {num} numbers within bounds\n\n{prediction_table(predicted, paced=paced)}\n")
    if any(run.case.repeat > 1 for run, _ in runs):
        print(f"Runs of the same case:\n\n{repeat_table([run for run, _ in runs])}\n")


if __name__ == "__main__":
    main()
