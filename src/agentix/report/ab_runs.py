"""A comparison of `agentix ab`: its summary, and the files of its runs where they lie beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentix.report.bench_runs import Document, machine_text, rate_text, read_run
from agentix.report.model import Run, Source

ReadFile = Callable[[Path], Document]


def read_ab(document: Document, *, path: Path, label: str | None, read_file: ReadFile) -> Source:
    """The summary as a source with all its runs; `read_file` gives what a file holds.

    The summary has every number of a run. Distributions, times and calls are in the runs' own files: where those are missing
    the report goes without. Raises KeyError or TypeError for what is no summary.
    """
    config = document["config"]
    runs = [_run(run, path=path, label=label, read_file=read_file) for run in document["runs"]]
    num_failed = sum(run["num_failed_calls"] for run in document["runs"])
    warnings = [
        *(["the comparison was interrupted"] if not document["complete"] else []),
        *([f"{num_failed} calls failed; their programs are in no latency"] if num_failed else []),
        *([] if all(run.samples for run in runs) else ["files of single runs are missing: no distributions of those"]),
    ]
    saturation = document["saturation_per_s"]
    return Source(
        name=path.name,
        kind="agentix ab",
        facts=(
            ("model", config["model"]),
            ("workload", ", ".join(f"{t['file']} ({t['num_programs']})" for t in config["workload"])),
            ("programs per run", str(config["num_programs"])),
            ("repeats", str(config["num_repeats"])),
            ("saturation", "unknown" if saturation is None else rate_text(saturation)),
            ("vLLM arguments", " ".join(config["vllm_args"]) or "none"),
            ("engine", ", ".join(document["engine_versions"]) or "unknown"),
            ("agentix", document["agentix_version"]),
            ("machine", machine_text(document["machine"])),
        ),
        warnings=tuple(warnings),
        runs=tuple(runs),
    )


def _run(run: Mapping[str, Any], *, path: Path, label: str | None, read_file: ReadFile) -> Run:
    arm = run["arm"] if label is None else f"{label} {run['arm']}"
    point = rate_text(run["rate_per_s"]) + ("" if run["load"] is None else f" ({run['load']:g} × saturation)")
    repeat = f"repeat {run['repeat']}"
    file = path.parent / Path(run["file"]).name
    if file.is_file():
        # The rate is that of the case; a benchmark's own file rounds nothing, so both are the same number.
        return replace(read_run(read_file(file), arm=arm, point=point, repeat=repeat), groups=run["groups"])
    rate_per_s = run["rate_per_s"]
    finite = rate_per_s if rate_per_s is not None and math.isfinite(rate_per_s) else None
    return Run(arm=arm, point=point, rate_per_s=finite, repeat=repeat, groups=run["groups"])
