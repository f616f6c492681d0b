"""The measured numbers as a section of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gateway.process import BenchmarkError

Document = Mapping[str, Any]

BEGIN, END = "<!-- gateway speed: begin -->", "<!-- gateway speed: end -->"

TARGET_P50_MS, TARGET_P99_MS = 1.5, 6.0
TARGET_CALLS_PER_S, TARGET_CHUNKS_PER_S = 1200, 15_000
TARGET_HELD_MB, TARGET_TABLE_MB = 500, 300


def report(document: Document) -> str:
    """Everything in Markdown, with no heading."""
    paragraphs = [_machine(document), _arms(document), *_faults(document), *_table_of_programs(document)]
    return "\n\n".join(paragraphs)


def write_section(path: Path, text: str) -> None:
    """Put the text between the marks in the page. Raises BenchmarkError if they are not there."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"{path} lacks the lines {BEGIN!r} and {END!r}, between which the numbers belong")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _machine(document: Document) -> str:
    machine, plan, cpus = document["machine"], document["plan"], document["cpus"]
    held = (
        "no process was held to a core"
        if cpus["gateway"] is None
        else f"the gateway alone on core {cpus['gateway']}, mock engine and load generator together on {cpus['others']}"
    )
    return (
        f"{machine['python']}, {machine['num_cores']} cores of {machine['cpu']}; {held}. "
        f"{plan['num_rounds']} rounds, arms in turns: {plan['latency_s']:g} s of latency, {plan['closed_s']:g} s each of calls "
        "and chunks. Median over the rounds, and least and most. "
        f"Load average of the machine before: {document['load_average']}; the run took {document['took_s']:.0f} s."
    )


def _arms(document: Document) -> str:
    plan, arms = document["plan"], document["arms"]
    head = (
        "",
        f"added latency at {plan['rate_per_s']:g} calls/s, ms: p50",
        "p99",
        "short calls/s",
        "stream chunks/s",
        "memory, MB: idle",
        f"with {plan['num_held']:,} streams",
    )
    targets = (
        "target",
        f"≤ {TARGET_P50_MS:g}",
        f"≤ {TARGET_P99_MS:g}",
        f"≥ {TARGET_CALLS_PER_S:,}",
        f"≥ {TARGET_CHUNKS_PER_S:,}",
        "",
        f"≤ {TARGET_HELD_MB:,}",
    )
    return _table(head, [_row(name, arm, arms["direct"]) for name, arm in arms.items()] + [targets])


def _row(name: str, arm: Document, direct: Document) -> tuple[str, ...]:
    """Latency is over that of the direct calls of the same round."""
    rounds = arm["rounds"]

    def added(which: str) -> str:
        pairs = [
            (ours["latency"]["latency_ms"], theirs["latency"]["latency_ms"])
            for ours, theirs in zip(rounds, direct["rounds"], strict=False)
            if "latency" in ours
        ]
        return _spread([ours[which] - theirs[which] for ours, theirs in pairs if ours and theirs], lambda v: f"{v:.2f}")

    def rate(load: str, key: str) -> str:
        return _spread([done[load][key] for done in rounds if load in done], lambda v: f"{v:,.0f}")

    memory = arm.get("memory")
    return (
        name,
        *(("–", "–") if name == "direct" else (added("p50"), added("p99"))),
        rate("calls", "calls_per_s"),
        rate("chunks", "chunks_per_s"),
        *(("–", "–") if memory is None else (f"{memory['idle_mb']:.0f}", f"{memory['held_mb']:.0f}")),
    )


def _faults(document: Document) -> list[str]:
    """What went wrong, if anything did: nobody should have to guess."""
    lines = [
        f"{name}: `{' '.join(arm['error'].split())[-300:]}`"
        for name, arm in document["arms"].items()
        if arm["error"] is not None
    ]
    for name, arm in document["arms"].items():
        loads = [(load, done) for played in arm["rounds"] for load, done in played.items()]
        loads += [("memory", arm["memory"])] if "memory" in arm else []
        loads += [("table", done) for row in arm.get("table", ()) for done in (row["filled"], row["latency"])]
        lines += [
            f"{name}, {load}: {done['num_failed']:,} calls failed, the first with `{' '.join(done['fault'].split())[:200]}`"
            for load, done in loads
            if done["num_failed"]
        ]
        if "memory" in arm and arm["memory"]["num_open"] < document["plan"]["num_held"]:
            lines.append(f"{name}, memory: {arm['memory']['num_open']:,} streams began in time, not all")
    return ["Not everything went well:\n\n" + "\n".join(f"- {line}" for line in lines)] if lines else []


def _table_of_programs(document: Document) -> list[str]:
    rows = document["arms"].get("agentix", {}).get("table")
    if rows is None:
        return []
    head = ("live programs", "latency, ms: p50", "p99", "memory, MB")
    cells = [
        (
            f"{row['num_programs']:,}",
            *(f"{row['latency']['latency_ms'][which]:.2f}" for which in ("p50", "p99")),
            f"{row['memory_mb']:.0f}",
        )
        for row in rows
    ]
    return [
        "Programs in the gateway's table, each of which has made a call; then any of them makes the next one (latency as the "
        f"client sees it, the engine's {1000 * document['engine_delay_s']:g} ms included):",
        _table(head, [*cells, ("target", "no slower", "no slower", f"≤ {TARGET_TABLE_MB}")]),
    ]


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """Median, and least and most if there are several."""
    if not values:
        return "–"
    middle = f"**{show(median(values))}**"
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} to {show(max(values))})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
