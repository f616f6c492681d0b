"""The numbers as a section of docs/results/cluster.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.cluster.part import table

BEGIN, END = "<!-- two engines: begin -->", "<!-- two engines: end -->"


def section(document: Mapping[str, Any]) -> str:
    """The section, in Markdown, under a heading of its own."""
    parts = ["## Two real engines", _setup(document)]
    if document["runs"]:
        parts.append(_balancers(document["runs"]))
    if document.get("kill_engine"):
        parts.append(_killed_engine(document["kill_engine"]))
    if document.get("kill_gateway"):
        parts.append(_killed_gateway(document["kill_gateway"]))
    return "\n\n".join(parts)


def replace_section(page: str, text: str) -> str:
    """The page with the section between its marks replaced, or put at the end if there are none."""
    block = f"{BEGIN}\n{text}\n{END}"
    before, mark, rest = page.partition(BEGIN)
    if not mark:
        return f"{page.rstrip()}\n\n{block}\n"
    return f"{before}{block}{rest.partition(END)[2]}"


def kept_section(page: str) -> str:
    """The section of a page, with its marks; "" if it has none."""
    _, mark, rest = page.partition(BEGIN)
    return f"{BEGIN}{rest.partition(END)[0]}{END}" if mark else ""


def _setup(document: Mapping[str, Any]) -> str:
    load, size, machine = document["load"], document["engines"], document["machine"]
    kv_tokens = size["num_blocks"] * size["block_size"]
    return (
        "A measurement, but of very small engines: two of vLLM with the plug-in and "
        f"`{size['model']}`, {size['num_slots']} slots and {kv_tokens:,} tokens of KV each, on one core each of a machine of "
        f"{machine['num_cpus']} cores, which the gateway and the load generator share. {load['num_programs']} programs of "
        f"{load['workload']}, {load['rate_per_s']:g} a second in the mean; a new gateway and empty caches for each run, "
        "balancers in turns, the same programs and arrivals in each repeat. "
        f"`{document['command']}`"
    )


def _balancers(runs: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for balancer in dict.fromkeys(run["balancer"] for run in runs):
        own = [run for run in runs if run["balancer"] == balancer]
        num_failed = sum(count for run in own for status, count in run["num_calls"].items() if status != "ok")
        rows.append(
            [
                f"`{balancer}`",
                _spread([run["jct_s"]["mean"] for run in own]),
                _spread([run["jct_s"]["p95"] for run in own]),
                _spread([run["ttft_s"]["mean"] for run in own], digits=2),
                _spread([100 * run["hit_rate"] for run in own], digits=0),
                str(round(sum(run["num_moves"] for run in own))),
                str(num_failed),
            ]
        )
    head = ("balancer", "mean JCT, s", "P95 JCT, s", "mean TTFT, s", "prefix hits, % of prompt tokens", "moves", "calls failed")
    num_repeats = len({run["repeat"] for run in runs})
    return f"Mean over {num_repeats} repeats (least to greatest):\n\n{table(head, rows)}"


def _killed_engine(killed: Mapping[str, Any]) -> str:
    return (
        f"**kill -9 of an engine.** {killed['num_under_way']} calls were under way. {killed['num_moved']} had no token yet and "
        f"went to the other engine, the last {_seconds(killed['last_moved_s'])} after the kill; "
        f"{killed['num_moved_and_finished']} of them finished. {killed['num_broken_streams']} streams broke off with an error "
        f"event. Lost before their first token: {killed['num_lost_without_a_token']}. The gateway took the engine out after "
        f"{_seconds(killed['noticed_s'])}, the next call finished after {_seconds(killed['next_finished_s'])}; "
        f"{killed['num_finished_later']} finished after the kill in all."
    )


def _killed_gateway(killed: Mapping[str, Any]) -> str:
    return (
        "**kill -9 of the gateway**, which keeps its table in a file (`--table`). The engines had no call left after "
        f"{_seconds(killed['engines_idle_s'])}; a new gateway on the same port had answered a call "
        f"{_seconds(killed['answered_s'])} after the kill, start of Python included. Service that it knew of: "
        f"{killed['service_after_s']:.1f} s of {killed['service_before_s']:.1f} s."
    )


def _spread(values: Sequence[float], digits: int = 1) -> str:
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
