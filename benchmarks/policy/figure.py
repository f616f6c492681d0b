"""The page's picture: where FCFS is over its limit, what each policy makes of the same programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentix.report.chart import Bars, Chart, Panel, Table, number

_LOAD = 1.5
_PANELS = {"mean JCT ÷ FCFS's": "jct_s", "mean token latency ÷ FCFS's": "token_latency_s"}
_GROUPS = {
    "coding_swe_agent_lengths": "coding",
    "bfcl_multi_turn_oracle": "BFCL",
    "tau_bench_airline": "tau-bench",
    "mixed": "Mixed",
    "tot_game24": "trees",
}

Places = Mapping[tuple[str, str, str, float], Mapping[str, Mapping[str, float]]]


def make_chart(places: Places, policies: tuple[str, ...]) -> Chart:
    """Ratios to `fcfs` of the traces that were played at that load, Poisson arrivals, seed 0. No bar: not played."""
    played = {
        trace: results for (trace, *sitting, load), results in places.items() if (*sitting, load) == ("poisson", "0", _LOAD)
    }
    traces = [trace for trace in _GROUPS if trace in played]

    def ratio(trace: str, policy: str, metric: str) -> float | None:
        result: Any = played[trace].get(policy)
        return None if result is None else result[metric] / played[trace]["fcfs"][metric]

    panels = [
        Panel(
            title=title,
            x="",
            y="",
            groups=[_GROUPS[trace] for trace in traces],
            bars=[
                Bars(label=policy, style=style, heights=[ratio(trace, policy, metric) for trace in traces])
                for style, policy in enumerate(policies)
            ],
        )
        for title, metric in _PANELS.items()
    ]
    rows = [
        [f"{panel.title}, {bars.label}", *(number(height) for height in bars.heights)]
        for panel in panels
        for bars in panel.bars
    ]
    return Chart(
        slug="policy",
        title=f"Load {_LOAD:g}, by trace",
        text="Smaller is better; 1 is first come, first served.",
        panels=panels,
        table=Table(header=["", *panels[0].groups], rows=rows),
    )
