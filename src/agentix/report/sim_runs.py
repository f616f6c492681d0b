"""A comparison of `agentix simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentix.report.bench_runs import Document, rate_text
from agentix.report.model import ALL, MAKESPAN, METRICS, STATISTICS, Run, Source

# Shares of a program's time in engines (docs/metrics.md), which add up to 1; tool gaps are nobody's share.
_SHARES = {"wait_share": "waiting", "swap_share": "swapping", "execute_share": "execution"}
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def read_simulation(document: Document, *, name: str, label: str | None) -> Source:
    """The result as a source with a run for each case. Raises KeyError or TypeError for what is no such result."""
    config, runs = document["config"], document["runs"]
    several_balancers = len(config["balancers"]) > 1
    num_failed, num_repeated = (max((run[key] for run in runs), default=0) for key in ("num_failed", "num_repeated"))
    warnings = [
        *([f"{num_failed} programs of a run did not end well; they are in no latency"] if num_failed else []),
        *([f"{num_repeated} programs are repeats of others"] if num_repeated else []),
    ]
    return Source(
        name=name,
        kind="agentix simulate",
        facts=(
            ("workload", str(config.get("workload") or config.get("scenario"))),
            ("programs", str(config.get("num_programs", "as the scenario has it"))),
            ("engines", f"{config['num_engines']}, {_engine(config)}"),
            ("preemption", config["engine"]["preemption"]),
            ("agentix", document["agentix_version"]),
        ),
        warnings=tuple(warnings),
        runs=tuple(_run(run, config, label=label, several_balancers=several_balancers) for run in runs),
    )


def _run(run: Mapping[str, Any], config: Mapping[str, Any], *, label: str | None, several_balancers: bool) -> Run:
    words = [*([label] if label else []), run["policy"], *([run["balancer"]] if several_balancers else [])]
    recorded = config.get("arrivals") == "trace"
    numbers = {f"{m}.{s}": run[m][s] for m in METRICS for s in STATISTICS}
    shares = {name: run[metric]["mean"] for metric, name in _SHARES.items() if run[metric]["mean"] is not None}
    return Run(
        arm=" ".join(words),
        point="as recorded" if recorded else rate_text(run["rate"]),
        rate_per_s=run["rate"],
        repeat=f"seed {run['seed']}",
        groups={ALL: {**numbers, MAKESPAN: run["makespan_s"]}},
        quantiles={m: [(q, run[m][s]) for s, q in _QUANTILES.items() if run[m][s] is not None] for m in METRICS},
        shares=shares,
    )


def _engine(config: Mapping[str, Any]) -> str:
    return f"{config['device']}, {config['model']}" if "device" in config else "measured" if "card" in config else "unit steps"
