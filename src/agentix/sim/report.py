"""A comparison as files: numbers (JSON), a Gantt chart (SVG), a trace for https://ui.perfetto.dev (JSON)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix import __version__
from agentix.core.errors import ConfigError
from agentix.sim.chrome_trace import chrome_trace
from agentix.sim.gantt import gantt_svg
from agentix.sim.plan import Case, SimulationConfig
from agentix.sim.run import CaseResult
from agentix.sim.timeline import Timeline

SCHEMA = "agentix-simulate/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where results go. Raises ConfigError for a place that cannot be written to, before anything is played."""

    numbers: Path | None = None
    gantt: Path | None = None
    trace: Path | None = None

    def __post_init__(self) -> None:
        for path in (self.numbers, self.gantt, self.trace):
            if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
                raise ConfigError(f"cannot write to {path}: not a file in a writable folder")

    @property
    def need_timelines(self) -> bool:
        """Whether a picture or a trace is asked for."""
        return self.gantt is not None or self.trace is not None


def document(config: SimulationConfig, results: Sequence[CaseResult]) -> dict[str, Any]:
    """The result file (schema: docs/metrics.md). The same configuration gives the same bytes with the same versions."""
    return {
        "schema": SCHEMA,
        "agentix_version": __version__,
        "python_version": platform.python_version(),
        "config": config.document(),
        "runs": [result.document() for result in results],
    }


def to_json(item: dict[str, Any]) -> str:
    """Strict JSON: no NaN, no infinity."""
    return json.dumps(item, indent=1, allow_nan=False)


def write_files(files: Files, config: SimulationConfig, results: Sequence[CaseResult]) -> None:
    """Write what is asked for; each file is the old one or the whole new one."""
    timelines = {_title(config, r.case): r.timeline for r in results if isinstance(r.timeline, Timeline)}
    if files.numbers is not None:
        _write(files.numbers, to_json(document(config, results)) + "\n")
    if files.gantt is not None:
        _write(files.gantt, gantt_svg(timelines))
    if files.trace is not None:
        _write(files.trace, json.dumps(chrome_trace(timelines), allow_nan=False) + "\n")


def _title(config: SimulationConfig, case: Case) -> str:
    """What tells the case from the others."""
    words = [case.policy]
    if len(config.balancers) > 1:
        words.append(case.balancer)
    if len(config.rates_per_s) > 1:
        words.append(f"{case.rate_per_s:g}/s")
    if len(config.seeds) > 1:
        words.append(f"seed {case.seed}")
    return ", ".join(words)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
