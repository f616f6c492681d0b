"""The result of a run as one JSON document (schema: docs/metrics.md). Holds no API key."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import agentix
from agentix.bench.config import BenchConfig
from agentix.bench.plan import Plan
from agentix.bench.recorder import Recorder
from agentix.metrics import CallRecord, ProgramRecord, Summary, summarise
from agentix.metrics.summary import CALL_METRICS, PROGRAM_METRICS

SCHEMA = "agentix-bench/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was decided before the first call went out."""

    config: BenchConfig
    argv: tuple[str, ...]  # the command line as typed
    run_id: str
    started_at: datetime
    model: str
    max_model_len: int | None
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """A finished or interrupted run."""

    document: dict[str, Any]
    summary: Summary
    failures: tuple[CallRecord, ...]  # first failure first
    is_complete: bool

    @property
    def exit_code(self) -> int:
        """130 if interrupted (as shells have it for Ctrl-C), 1 if a call failed, 0 otherwise."""
        if not self.is_complete:
            return 130
        return 1 if self.failures else 0


def make_result(setup: Setup, recorder: Recorder, *, is_complete: bool) -> BenchResult:
    """Put setup, records and summary together."""
    programs = recorder.records()
    summary = summarise(programs)
    document = {
        "schema": SCHEMA,
        "complete": is_complete,
        **_described(setup),
        "machine": describe_machine(),
        "summary": asdict(summary),
        "programs": [_program(program) for program in programs],
        "calls": [_call(call) for program in programs for call in program.calls],
    }
    return BenchResult(document=document, summary=summary, failures=tuple(recorder.failures), is_complete=is_complete)


def describe_machine() -> dict[str, Any]:
    """What this process runs on, without its name."""
    return {"num_cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}


def write_result(result: BenchResult, path: Path) -> None:
    """Write the document in one step: the file is the old one or the whole new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(result.document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def _described(setup: Setup) -> dict[str, Any]:
    config = setup.config
    return {
        "command": _publishable(setup.argv, config),
        "agentix_version": agentix.__version__,
        "run_id": setup.run_id,
        "started_at": setup.started_at.isoformat(),
        "target": config.base_url,
        "model": setup.model,
        "max_model_len": setup.max_model_len,
        "context_margin": config.context_margin,
        "workload": config.workload.name,
        "seed": config.seed,
        "rate_per_s": config.rate_per_s if math.isfinite(config.rate_per_s) else None,
        "timeout_s": config.timeout_s,
        "num_programs": config.num_programs,
        "num_skipped_too_long": setup.plan.num_skipped_too_long,
        "num_repeated": setup.plan.num_repeated,
    }


def _publishable(argv: Sequence[str], config: BenchConfig) -> list[str]:
    """The command line without the API key and without where things lie on this machine: paths become file names."""
    paths = {str(config.workload): config.workload.name, str(config.out): config.out.name}
    words = [Path(argv[0]).name, *(paths.get(argument, argument) for argument in argv[1:])] if argv else []
    return [word.replace(config.api_key, "***") if config.api_key else word for word in words]


def _program(program: ProgramRecord) -> dict[str, Any]:
    record = {
        "program_id": program.program_id,
        "trace_program_id": program.trace_program_id,
        "workload": program.workload,
        "status": program.status,
        "arrival_s": program.arrival_s,
        "num_calls": len(program.calls),
        "end_error": program.end_error,
    }
    return record | {name: metric(program) for name, metric in PROGRAM_METRICS.items()}


def _call(call: CallRecord) -> dict[str, Any]:
    return asdict(call) | {name: metric(call) for name, metric in CALL_METRICS.items()}
