"""The default policy on workloads made to break it, beside the others, in the simulator.

    python -m benchmarks.policy.adversarial [--shapes S,…] [--policies P,…] [--again P,…] [--jobs N] [--scale S] [--out FILE]

Finds for each workload what first come, first served can carry, plays every policy at 1.2 times that, and writes the numbers
as they come and beside them the page (.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.policy.cell import BOUND, DEVICE, KV_TOKENS, MODEL, NUM_SLOTS
from benchmarks.policy.hostile import SATURATED, find_saturation, play
from benchmarks.policy.runs import Runs, add_options, minutes, names, open_document, play_missing, save, table
from benchmarks.policy.shapes import SHAPES
from benchmarks.policy.variants import NO_FADING

LOAD = 1.2
_FIRST = ("fcfs", "default", BOUND)  # these are played first: what a run that is cut short should have
_WORSE = 1.02  # from so many times first come, first served on, a cell is marked
ORDER = ("fcfs", "plas", "program_fcfs", "pause_resume", "las", "default", NO_FADING, "srpt", BOUND)
_LABELS = {BOUND: "srpt, resident", NO_FADING: "default, no fading"}
_METRICS = {"mean JCT": "jct_s", "P99 JCT": "jct_p99_s", "token latency": "token_latency_s", "makespan": "makespan_s"}


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.policy.adversarial", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--shapes", default=",".join(SHAPES), help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--policies", default=",".join(ORDER), help="these alone")
    add_options(parser, out=Path("docs/results/policy-adversarial.json"))
    args = parser.parse_args()
    shapes, policies = names(parser, args.shapes, SHAPES), names(parser, args.policies, ORDER)
    document = open_document(parser, args)
    saturation: Runs = document.setdefault("saturation", {})

    def run(function: Any, tasks: dict[str, tuple[Any, ...]], into: Runs) -> None:
        play_missing(function, tasks, into, num_processes=args.jobs, on_done=lambda: write(args.out, document))

    at_a_rate = [shape for shape in shapes if SHAPES[shape].at_once_s is None]
    run(find_saturation, {shape: (shape, args.scale) for shape in at_a_rate}, saturation)
    rates_per_s = {shape: LOAD * found["rate_per_s"] for shape, found in saturation.items()}
    policies.sort(key=lambda policy: policy not in _FIRST)
    tasks = {f"{s} {policy}": (s, policy, rates_per_s.get(s), args.scale) for policy in policies for s in shapes}
    run(play, tasks, document["runs"])
    write(args.out, document)
    print(f"see {args.out.with_suffix('.md')}")


def write(path: Path, document: dict[str, Any]) -> None:
    """The numbers, and the page beside them; of a run that is not over yet what there is."""
    save(path, document)
    path.with_suffix(".md").write_text(text(document), encoding="utf-8")


def text(document: dict[str, Any]) -> str:
    """The page, from the numbers alone."""
    runs, saturation = document["runs"], document["saturation"]
    shapes = [shape for shape in SHAPES if f"{shape} fcfs" in runs and f"{shape} default" in runs]
    parts = [
        f"""# Workloads made to break the default policy

Simulated: {MODEL} on {DEVICE} by roofline, {NUM_SLOTS} slots, {KV_TOKENS:,} tokens of KV, synthetic programs, one seed.
`python -m benchmarks.policy.adversarial` writes this page from [policy-adversarial.json](policy-adversarial.json), in
{minutes(saturation) + minutes(runs):.0f} minutes of one core.

Programs come at {LOAD:g} times the rate from which on, under `fcfs`, they spend {SATURATED:g} times as long in the engine as
alone. The worst slowdown is the most that any program took of its time alone. Abandoned programs do not count. `srpt` and
`srpt, resident` know the future: bounds. Bold: more than 2 % worse than `fcfs`.""",
        "## At a glance: the default by `fcfs`\n\n" + _summary(runs, shapes),
        *(_shape_table(runs, saturation, shape) for shape in shapes),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(runs: Runs, shapes: list[str]) -> str:
    head = ["workload", *_METRICS, "worst slowdown", "best of the others in mean JCT", "… in P99 JCT"]
    rows = []
    for shape in shapes:
        default, fcfs = runs[f"{shape} default"], runs[f"{shape} fcfs"]
        ratios = [_marked(default[metric] / fcfs[metric]) for metric in (*_METRICS.values(), "worst_slowdown")]
        rows.append([f"`{shape}`", *ratios, _best_other(runs, shape, "jct_s"), _best_other(runs, shape, "jct_p99_s")])
    return table(head, rows)


def _best_other(runs: Runs, shape: str, metric: str) -> str:
    """The best of the other policies that a real engine can have, by first come, first served."""
    others = [policy for policy in ORDER[1:5] if f"{shape} {policy}" in runs]
    if not others:
        return "–"
    best = min(others, key=lambda policy: float(runs[f"{shape} {policy}"][metric]))
    return f"`{best}` {runs[f'{shape} {best}'][metric] / runs[f'{shape} fcfs'][metric]:.2f}"


def _marked(ratio: float) -> str:
    return f"**{ratio:.2f}**" if ratio > _WORSE else f"{ratio:.2f}"


def _shape_table(runs: Runs, saturation: Runs, shape: str) -> str:
    kinds = list(runs[f"{shape} fcfs"]["jct_by_kind_s"])
    kinds = kinds if len(kinds) > 1 else []
    head = ["policy", "mean JCT s", "P99 JCT s", "token latency s", "makespan s", "worst slowdown", "prefix hit rate"]
    rows = []
    for policy in ORDER:
        run = runs.get(f"{shape} {policy}")
        if run is not None:
            seconds = [f"{run['jct_s']:.1f}", f"{run['jct_p99_s']:.0f}", f"{run['token_latency_s']:.3f}"]
            rest = [f"{run['makespan_s']:.0f}", f"{run['worst_slowdown']:.1f}", f"{run['hit_rate']:.2f}"]
            by_kind = [f"{run['jct_by_kind_s'][kind]:.1f}" for kind in kinds]
            rows.append([f"`{_LABELS.get(policy, policy)}`", *seconds, *rest, *by_kind])
    rate = f" Load 1: {saturation[shape]['rate_per_s']:.2g} programs/s." if shape in saturation else ""
    return f"## {shape}\n\n{_sentence(SHAPES[shape].says)}{rate}\n\n" + table(
        [*head, *(f"mean JCT s, {k}" for k in kinds)], rows
    )


def _sentence(says: str) -> str:
    return says[0].upper() + says[1:] + "."


if __name__ == "__main__":
    main()
