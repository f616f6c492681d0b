"""simulator-speed.md and its picture, from the numbers in simulator-speed.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper.figure import Panel
from benchmarks.simulator_speed.waiting import KINDS

Document = Mapping[str, Any]

_INTRODUCTION = """# How fast the simulator is

Pure Python, one process, one core. CPU seconds are those of the best of the repeats: on a machine that does other things as
well, the best is nearest to what the work takes; the median stands beside it. Reading the trace is not counted; routing,
scheduling, every step and the records of all calls are. Rates are per CPU second of the best.

Written by `make speed` (`python -m benchmarks.simulator_speed`) from [simulator-speed.json](simulator-speed.json)."""

_ONE_ENGINE = """## One engine

llama-3.1-8b on an A100-80GB by the roofline, 64 slots, 25,000 KV blocks of 16 tokens, prefix cache on, Poisson arrivals.
Several decode steps that are sure to be alike are played as one, so a run costs less the less happens in it."""

_CLUSTER = """## Many engines

The same engine, many times, behind `program_affinity` and one process table. Every call is offered to the balancer with a view
of every engine."""

_WAITING = """## Waiting calls

What an event costs while so many calls wait: nothing may look at all of them. In the core alone, 64 calls run and a cycle is: a
call arrives, one that waits begins to starve and is promoted, the running calls are charged a step, one finishes, a batch is
chosen, the promoted call starts. The columns of the core are medians of wall time per event; *cycle* is the mean CPU time of a
cycle, with the construction of its events and what is done only now and then. *Engine* is the CPU time per call of a
whole modelled engine whose queue is kept at one length (256 prompt tokens, 32 to 95 output tokens).

![Cost against waiting calls](simulator-speed.svg)

An exponent e means that the cost grows as n^e over the whole range: 0 is constant, 1 would be proportional. The order of the
queue is a sorted list in blocks: a place in it is found in O(log n) comparisons, and no more than a block moves in memory. What
grows beyond that is what a larger table costs the processor's caches."""

_VIDUR = """## Beside vidur

[vidur](https://pypi.org/project/vidur/) simulates LLM serving in Python at the same grain, a step of a batch. Both play the
same independent calls in order of arrival on one engine of 64 slots and 25,000 blocks of 16 tokens, in chunks of 2,048
tokens (vidur's `sarathi` scheduler), without a prefix cache, and without calls of more than 4,096 tokens. vidur takes step
times from random forests, trained on profiles of devices that it loads from the network; here it gets one formula with the
roofline's three constants instead, and writes no metrics, traces or plots: its event loop alone is compared, and only its
simulation is timed. That the makespans agree says that both did the same work."""

_SECTIONS = ("sharegpt", "cluster", "waiting", "vidur")


def write_page(path: Path, document: Document) -> None:
    """The page, with a section for each case that has been measured."""
    sections = [text for case in _SECTIONS if case in document for text in _section(case, document[case])]
    path.write_text("\n\n".join([_INTRODUCTION, *sections]) + "\n", encoding="utf-8")


def _section(case: str, measured: Document) -> list[str]:
    write = {"sharegpt": _one_engine, "cluster": _cluster, "waiting": _waiting, "vidur": _vidur}[case]
    machine = measured["machine"]
    repeats = f"{measured['num_repeats']} repeats" if measured["num_repeats"] > 1 else "one run"
    size = f", {measured['scale']:g} of the full size" if measured["scale"] < 1 else ""
    return [*write(measured), f"Measured with {machine['python']} on {machine['cpu']}, {repeats}{size}."]


def _one_engine(measured: Document) -> list[str]:
    return [_ONE_ENGINE, _workload(measured), _run_table(measured["rows"])]


def _cluster(measured: Document) -> list[str]:
    num_copies = measured["num_copies"]
    copies = f" {num_copies:,} programs are copies of others, whose prompts they share." if num_copies else ""
    return [_CLUSTER, _workload(measured) + copies, _run_table(measured["rows"])]


def _workload(measured: Document) -> str:
    num_left_out = measured["num_left_out"]
    return f"Programs: {measured['workload']}; {num_left_out:,} left out for a prompt of no or more than 100,000 tokens."


def _run_table(rows: Sequence[Document]) -> str:
    load = ("policy", "engines", "programs/s", "programs", "calls", "steps", "output tokens", "simulated s")
    return _table(
        (*load, "CPU s: best", "median", "calls/s", "steps/s", "output tokens/s"),
        [
            (
                row["policy"],
                f"{row['num_engines']}",
                f"{row['rate_per_s']:g}",
                *(f"{row[name]:,}" for name in ("num_programs", "num_calls", "num_steps", "output_tokens")),
                f"{row['makespan_s']:,.0f}",
                f"**{row['cpu_best_s']:.1f}**",
                f"{row['cpu_median_s']:.1f}",
                *(f"{row[name]:,.0f}" for name in ("calls_per_s", "steps_per_s", "output_tokens_per_s")),
            )
            for row in rows
        ],
    )


def _waiting(measured: Document) -> list[str]:
    exponents = measured["exponents"]
    rows = [
        (
            f"{core['num_waiting']:,}",
            *(f"{1e6 * core['median_s'][kind]:.1f}" for kind in KINDS),
            f"{1e6 * core['cycle_s']:.0f}",
            f"{1e6 * engine['call_s']:.0f}",
        )
        for core, engine in zip(measured["core"], measured["engine"], strict=True)
    ]
    last = ("exponent", *(f"{exponents[kind]:.2f}" for kind in (*KINDS, "cycle", "engine")))
    return [_WAITING, _table(("waiting calls", *(f"{kind}, µs" for kind in (*KINDS, "cycle", "engine"))), [*rows, last])]


def _vidur(measured: Document) -> list[str]:
    if "error" in measured:
        return [_VIDUR, f"`{measured['requirement']}` could not be run: `{measured['error']}`."]
    rows = [
        (
            row["simulator"],
            f"{row['num_steps']:,}",
            f"{row['makespan_s']:.1f}",
            f"{row['cpu_best_s']:.2f}",
            f"{row['cpu_median_s']:.2f}",
            f"**{1e3 * row['call_s']:.2f}**",
        )
        for row in measured["rows"]
    ]
    load = f"{measured['num_calls']:,} calls, {measured['output_tokens']:,} output tokens, {measured['rate_per_s']:g} calls/s"
    head = ("simulator", "steps", "makespan, simulated s", "CPU s: best", "median", "CPU ms per call")
    return [_VIDUR, f"`{measured['requirement']}`, {load}.", _table(head, rows)]


def panels(measured: Document) -> list[Panel]:
    """Cost against waiting calls, on logarithmic axes: of the core's events, and of a call in a modelled engine."""
    lengths = [row["num_waiting"] for row in measured["core"]]
    costs_us = {kind: [1e6 * row["median_s"][kind] for row in measured["core"]] for kind in KINDS}
    core = {kind: list(zip(lengths, costs, strict=True)) for kind, costs in costs_us.items()}
    engine = {"call": [(row["num_waiting"], 1e6 * row["call_s"]) for row in measured["engine"]]}
    return [
        Panel(title=title, x="waiting calls", y="CPU time, µs", lines=lines, log_x=True, log_y=True)
        for title, lines in (("Events of the core", core), ("Calls of a modelled engine", engine))
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
