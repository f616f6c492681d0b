"""What each idea of the default policy is worth, on recorded programs, in the simulator.

    AGENTIX_TRACE_DIR=… python -m benchmarks.policy.ablation [--traces T,…] [--variants V,…] [--again V,…] [--jobs N]

Plays the default policy without one idea after the other at 1.5 times what first come, first served can carry (as found by
`python -m benchmarks.policy`), and writes the numbers as they come and beside them the page (.md).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.policy.cell import DEVICE, KV_TOKENS, MODEL, NUM_SLOTS, Cell, play
from benchmarks.policy.runs import Runs, add_options, minutes, names, open_document, play_missing, save, table
from benchmarks.policy.variants import VARIANTS

LOAD = 1.5
TRACES = ("coding_swe_agent_lengths", "bfcl_multi_turn_oracle", "mixed", "tau_bench_airline", "tot_game24")
_SATURATION = Path("docs/results/policy.json")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy.ablation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", default=",".join(TRACES), help=f"of {', '.join(TRACES)}")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="these alone")
    add_options(parser, out=Path("docs/results/policy-ablation.json"))
    args = parser.parse_args()
    traces, variants = names(parser, args.traces, TRACES), names(parser, args.variants, VARIANTS)
    document = open_document(parser, args)
    saturation = json.loads(_SATURATION.read_text(encoding="utf-8"))["saturation_per_s"]
    tasks = {
        f"{trace} {variant}": (trace, VARIANTS[variant][0], LOAD * saturation[trace], args.scale)
        for trace in traces
        for variant in variants
    }

    def write() -> None:
        save(args.out, document)
        args.out.with_suffix(".md").write_text(text(document), encoding="utf-8")

    play_missing(play_cell, tasks, document["runs"], num_processes=args.jobs, on_done=write)
    write()
    print(f"see {args.out.with_suffix('.md')}")


def play_cell(trace: str, policy: str, rate_per_s: float, scale: float) -> dict[str, Any]:
    """A run in numbers, and the seconds of a core that it took."""
    began_s = time.process_time()
    result = play(Cell(trace=trace, policy=policy, rate_per_s=rate_per_s, scale=scale))
    return {**asdict(result), "cpu_s": time.process_time() - began_s}


def text(document: dict[str, Any]) -> str:
    """The page, from the numbers alone."""
    runs: Runs = document["runs"]
    explained = table(["variant", "what it is"], ([f"`{name}`", what] for name, (_, what) in VARIANTS.items()))
    parts = [
        f"""# What each idea of the default policy is worth

Simulated: {MODEL} on {DEVICE} by roofline, {NUM_SLOTS} slots, {KV_TOKENS:,} tokens of KV, recorded programs, {LOAD:g} times
what first come, first served can carry, {document["scale"]:g} of the programs of [policy.md](policy.md).
`python -m benchmarks.policy.ablation` writes this page from [policy-ablation.json](policy-ablation.json), in
{minutes(runs):.0f} minutes of one core. What the ideas are is in [policies.md](../policies.md#beyond-the-paper-gittins).

Read a row of the first two tables as: without that idea, programs take so many times as long as under the default; above
1 the idea helps. One seed: differences below about 0.03 say nothing.""",
        explained,
        "## Mean JCT by that of the default\n\n" + _ratios(runs, "jct_s"),
        "## P99 JCT by that of the default\n\n" + _ratios(runs, "jct_p99_s"),
        *(_trace_table(runs, trace) for trace in TRACES),
    ]
    return "\n\n".join(parts) + "\n"


def _ratios(runs: Runs, metric: str) -> str:
    def cell(trace: str, variant: str) -> str:
        run, default = runs.get(f"{trace} {variant}"), runs.get(f"{trace} default")
        return "–" if run is None or default is None else f"{run[metric] / default[metric]:.2f}"

    return table(["variant", *TRACES], ([f"`{v}`", *(cell(trace, v) for trace in TRACES)] for v in VARIANTS))


def _trace_table(runs: Runs, trace: str) -> str:
    rows = []
    for variant in VARIANTS:
        run = runs.get(f"{trace} {variant}")
        if run is not None:
            seconds = [f"{run['jct_s']:.1f}", f"{run['jct_p99_s']:.0f}", f"{run['token_latency_s']:.3f}"]
            rows.append([f"`{variant}`", *seconds, f"{run['makespan_s']:.0f}", f"{run['hit_rate']:.2f}"])
    head = ["variant", "mean JCT s", "P99 JCT s", "token latency s", "makespan s", "prefix hit rate"]
    return f"## {trace}\n\n" + table(head, rows)


if __name__ == "__main__":
    main()
