"""The page: every cell, and what the marks say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentix.report.draw import svg
from benchmarks.policy.cell import DEVICE, KV_TOKENS, MODEL, NUM_SLOTS
from benchmarks.policy.figure import make_chart

_METRICS = {
    "mean JCT": "jct_s",
    "P99 JCT": "jct_p99_s",
    "token latency": "token_latency_s",
    "makespan": "makespan_s",
}
_ORDER = ("default", "plas", "program_fcfs", "pause_resume", "las", "srpt", "srpt, resident")
_SHOWN = ("default", "plas", "program_fcfs", "pause_resume", "las", "srpt")
_WORSE = 1.02


def write_page(path: Path, document: dict[str, Any]) -> None:
    """Write the page, and its picture beside it, from the numbers alone."""
    runs = _by_place(document["runs"])
    chart = make_chart(runs, _SHOWN)
    picture = path.with_suffix(".svg")
    picture.write_text(svg(chart), encoding="utf-8")
    titles = " and ".join(panel.title for panel in chart.panels)
    shown = f"![{chart.title}: {titles}]({picture.name})\n\n{chart.title}. {chart.text}"
    parts = [_introduction(document), _summary(runs), shown, *_tables(runs)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


Places = dict[tuple[str, str, str, float], dict[str, dict[str, float]]]


def _by_place(runs: dict[str, Any]) -> Places:
    """Results by (trace, arrivals, seed, load) and then by policy."""
    places: Places = {}
    for key, result in runs.items():
        trace, arrivals, seed, load, policy = key.split(" ")
        places.setdefault((trace, arrivals, seed, float(load)), {})[_label(policy)] = result
    return {place: results for place, results in sorted(places.items()) if "fcfs" in results and "default" in results}


def _label(policy: str) -> str:
    return "srpt, resident" if ":" in policy else policy


def _introduction(document: dict[str, Any]) -> str:
    saturation = ", ".join(f"{trace} {rate:.2g}" for trace, rate in sorted(document["saturation_per_s"].items()))
    return f"""# The default policy against the others

Simulated: {MODEL} on {DEVICE} by roofline, {NUM_SLOTS} slots, {KV_TOKENS:,} tokens of KV, recorded programs.
`python -m benchmarks.policy --scale {document["scale"]:g}` writes this page from [policy.json](policy.json). What the policies
do is in [policies.md](../policies.md). `srpt` and `srpt, resident` (the default policy with the true remaining work) know the
future: bounds. `fcfs`, the paper's policies and those of other systems run as published, `default` with the rules that
engines have on.

Load 1 is the rate at which programs take 5 times as long as alone under `fcfs` (seed 0, Poisson). In programs per
second: {saturation}."""


def _summary(places: Places) -> str:
    lines = [
        "## At a glance",
        "",
        "Ratios to `fcfs` in the same cell, smaller is better: median over cells (best … worst).",
        "",
    ]
    lines += ["| | " + " | ".join(_METRICS) + " |", "|---|" + "---|" * len(_METRICS)]
    for name, is_above in (("below saturation (0.7, 0.9)", False), ("above (1.1, 1.5)", True)):
        for policy in _ORDER:
            cells = [results for (*_, load), results in places.items() if (load > 1) == is_above and policy in results]
            row = [_spread([r[policy][m] / r["fcfs"][m] for r in cells]) for m in _METRICS.values()]
            lines.append(f"| `{policy}`, {name} | " + " | ".join(row) + " |")
    worse = {
        name: sum(results["default"][metric] > _WORSE * results["fcfs"][metric] for results in places.values())
        for name, metric in _METRICS.items()
    }
    told = ", ".join(f"{name} in {count}" for name, count in worse.items())
    lines += ["", f"Of {len(places)} cells `default` is more than 2 % worse than `fcfs` by {told}."]
    return "\n".join(lines)


def _spread(ratios: list[float]) -> str:
    ordered = sorted(ratios)
    if not ordered:
        return "–"
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} … {ordered[-1]:.2f})"


def _tables(places: Places) -> list[str]:
    tables = []
    for trace in sorted({trace for trace, *_ in places}):
        lines = [f"## {trace}", "", "Mean JCT s / P99 JCT s / token latency s / makespan s / prefix hit rate.", ""]
        mine = {place: results for place, results in places.items() if place[0] == trace}
        policies = list(dict.fromkeys(policy for results in mine.values() for policy in results))
        lines += ["| arrivals, seed, load | " + " | ".join(policies) + " |", "|---|" + "---|" * len(policies)]
        for (_, arrivals, seed, load), results in mine.items():
            row = [_cell(results.get(policy)) for policy in policies]
            lines.append(f"| {arrivals} {seed}, {load:g} | " + " | ".join(row) + " |")
        tables.append("\n".join(lines))
    return tables


def _cell(result: dict[str, float] | None) -> str:
    if result is None:
        return "–"
    return (
        f"{result['jct_s']:.1f} / {result['jct_p99_s']:.0f} / {result['token_latency_s']:.3f} / {result['makespan_s']:.0f}"
        f" / {result['hit_rate']:.2f}"
    )
