"""Results of bench, ab and simulate, made by hand: as small as a report takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MACHINE = {"num_cpus": 2, "platform": "test", "python": "3.11"}


def bench_document(*jcts_s: float, rate_per_s: float | None = 1.0, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """A result of programs of one call each, which arrive at 0, 1, 2, … and are answered with 10 tokens from their half on."""
    programs = [
        {
            "program_id": f"run-{i}",
            "trace_program_id": f"trace-{i}",
            "workload": "test",
            "status": "ok",
            "arrival_s": float(i),
            "jct_s": jct_s,
            "program_token_latency_s": jct_s / 10,
        }
        for i, jct_s in enumerate(jcts_s)
    ]
    calls = [
        {
            "program_id": f"run-{i}",
            "call_id": "c",
            "parents": [],
            "max_tokens": 10 + i,
            "ready_s": float(i),
            "sent_s": float(i),
            "first_token_s": i + jct_s / 2,
            "end_s": i + jct_s,
        }
        for i, jct_s in enumerate(jcts_s)
    ]
    return {
        "schema": "agentix-bench/1",
        "complete": True,
        "agentix_version": "0",
        "started_at": "2026-01-01T00:00:00+00:00",
        "model": "tiny",
        "workload": "test.jsonl",
        "seed": seed,
        "rate_per_s": rate_per_s,
        "num_programs": len(programs),
        "num_skipped_too_long": 0,
        "num_repeated": 0,
        "machine": _MACHINE,
        "summary": {"makespan_s": 9.0, "num_calls": {"failed": 0}, "num_short_answers": 0},
        "programs": programs,
        "calls": calls,
        **changes,
    }


def distribution(mean: float) -> dict[str, float]:
    """A metric of a simulation: its percentiles are multiples of the mean."""
    return {"mean": mean, "p50": mean, "p95": 2 * mean, "p99": 3 * mean, "max": 4 * mean}


def simulation_document(*runs: tuple[str, int, float], rate: float | None = 1.0) -> dict[str, Any]:
    """A result with a run for each (policy, seed, mean response time)."""
    return {
        "schema": "agentix-simulate/1",
        "agentix_version": "0",
        "config": {
            "workload": "mixed",
            "num_programs": 8,
            "arrivals": "poisson",
            "balancers": ["least_used"],
            "num_engines": 1,
            "device": "d",
            "model": "m",
            "engine": {"preemption": "none"},
        },
        "runs": [
            {
                "policy": policy,
                "balancer": "least_used",
                "rate": rate,
                "seed": seed,
                "num_failed": 0,
                "num_repeated": 0,
                "makespan_s": 9.0,
                "jct_s": distribution(mean_s),
                "program_token_latency_s": distribution(mean_s / 10),
                "wait_share": {"mean": 0.25},
                "swap_share": {"mean": 0.0},
                "execute_share": {"mean": 0.75},
            }
            for policy, seed, mean_s in runs
        ],
    }


def ab_document(*runs: tuple[str, int, float]) -> dict[str, Any]:
    """A summary with a run for each (arm, repeat, mean response time), at 1.5 times the saturation."""
    return {
        "schema": "agentix-ab/1",
        "complete": True,
        "agentix_version": "0",
        "engine_versions": ["1"],
        "machine": _MACHINE,
        "config": {
            "model": "tiny",
            "vllm_args": [],
            "num_programs": 4,
            "num_repeats": 2,
            "workload": [{"file": "a.jsonl", "num_programs": 4}],
        },
        "saturation_per_s": 2.0,
        "runs": [
            {
                "file": f"load1.5-r{repeat}-{arm}.json.gz",
                "arm": arm,
                "rate_per_s": 3.0,
                "load": 1.5,
                "repeat": repeat,
                "num_failed_calls": 0,
                "groups": {"all": {"jct_s.mean": mean_s, "makespan_s": 9.0}, "longer half": {"jct_s.mean": 2 * mean_s}},
            }
            for arm, repeat, mean_s in runs
        ],
    }


def written(folder: Path, name: str, document: dict[str, Any]) -> str:
    """The document as a file; its path."""
    (folder / name).write_text(json.dumps(document))
    return str(folder / name)
