"""The answer as JSON (schema: docs/report.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentix import __version__
from agentix.metrics.interval import Interval
from agentix.recommend.choose import Comparison
from agentix.recommend.config import NUM_TRIALS
from agentix.recommend.run import Recommendation

SCHEMA = "agentix-recommend/1"


def document(answer: Recommendation) -> dict[str, Any]:
    """Verdict, proposal and evidence; no path of this machine. Equal questions give equal documents with the same versions."""
    config = answer.config
    settings = config.simulation().document()
    return {
        "schema": SCHEMA,
        "agentix_version": __version__,
        "trace": config.trace.name,
        "num_programs": answer.num_programs,
        "num_calls": answer.num_calls,
        "rate_per_s": config.rate_per_s,
        "engine": {name: settings[name] for name in ("device", "model", "card", "engine") if name in settings},
        "now": asdict(config.now),
        "verdict": answer.verdict.value,
        "proposal": None if answer.proposal is None else asdict(answer.proposal),
        "hardly_waits": answer.hardly_waits,
        "one_engine_fewer_would_do": answer.one_engine_fewer_would_do,
        "best": _comparison(answer.comparison),
        "fewer": None if answer.fewer is None else _comparison(answer.fewer),
        "num_trials": NUM_TRIALS,
        "trials": [{**asdict(arm), "ratios": _intervals(ratios)} for arm, ratios in answer.trials.items()],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        **asdict(comparison.arm),
        "values": _intervals(comparison.values),
        "now": _intervals(comparison.base),
        "ratios": _intervals(comparison.ratios),
    }


def _intervals(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: asdict(interval) for name, interval in intervals.items()}
