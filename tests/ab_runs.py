"""Files of runs of an A/B comparison, made by hand."""

from __future__ import annotations

from typing import Any


def document(*programs: tuple[str, int, float | None], makespan_s: float = 9.0) -> dict[str, Any]:
    """A run's file: each program has a kind, the tokens of its one call, and its JCT."""
    return {
        "programs": [
            {
                "program_id": f"p{index}",
                "workload": kind,
                "jct_s": jct_s,
                "program_token_latency_s": None if jct_s is None else jct_s / num_tokens,
            }
            for index, (kind, num_tokens, jct_s) in enumerate(programs)
        ],
        "calls": [{"program_id": f"p{index}", "max_tokens": tokens} for index, (_, tokens, _) in enumerate(programs)],
        "summary": {
            "makespan_s": makespan_s,
            "program_throughput_per_s": 0.5,
            "num_short_answers": 0,
            "num_calls": {"failed": sum(jct_s is None for *_, jct_s in programs)},
        },
        "counters": {"prefix_hit_rate": 0.25, "num_preemptions": None},
        "num_skipped_too_long": 0,
        "num_repeated": 0,
        "engine_version": None,
    }
