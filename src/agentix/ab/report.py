"""The summary of a comparison as one JSON document (schema: docs/ab.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agentix import __version__
from agentix.ab.compare import Run, compare
from agentix.ab.config import AbConfig, json_rate
from agentix.ab.mix import Trace
from agentix.bench.result import describe_machine

SCHEMA = "agentix-ab/1"


def summary_document(
    config: AbConfig, traces: Sequence[Trace], runs: Sequence[Run], *, saturation_per_s: float | None, is_complete: bool
) -> dict[str, Any]:
    """The configuration, what ran where, the numbers of every run, and the arms compared. Holds no path of this machine."""
    return {
        "schema": SCHEMA,
        "complete": is_complete,
        "agentix_version": __version__,
        "engine_versions": sorted({run.engine_version for run in runs if run.engine_version}),
        "machine": describe_machine(),
        "config": {
            **config.document(),
            "workload": [trace.document() for trace in traces],
            "arms": [asdict(arm) for arm in config.arms],
            "rates_per_s": [json_rate(rate_per_s) for rate_per_s in config.rates_per_s],
            "loads": list(config.loads),
            "num_repeats": config.num_repeats,
            "seed": config.seed,
        },
        "saturation_per_s": saturation_per_s,
        "runs": [_run(run) for run in runs],
        "comparisons": [asdict(comparison) for comparison in compare(runs, first_arm=config.arms[0].name)],
    }


def _run(run: Run) -> dict[str, Any]:
    document = asdict(run)
    case = document.pop("case")
    return {
        "file": f"{run.case.name}.json.gz",
        "arm": run.case.arm.name,
        "point": run.case.point,
        **{name: case[name] for name in ("load", "repeat", "seed")},
        "rate_per_s": json_rate(run.case.rate_per_s),
        **document,
    }
