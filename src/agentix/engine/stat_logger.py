"""The plug-in's numbers on vLLM's own /metrics: a logger of statistics that vLLM's API server loads by entry point.

Names, labels and what they count: docs/metrics.md.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import prometheus_client
from prometheus_client import REGISTRY
from vllm.logger import init_logger
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from agentix.engine.telemetry import CARRIER, COUNTERS, take_report

logger = init_logger(f"vllm.{__name__}")

_LABELS = ("model_name", "engine")


class ProgramStatLogger(AggregateStatLoggerBase):  # type: ignore[misc]  # vLLM is not typed for strict checking
    """Takes the reports of `telemetry.Telemetry` out of vLLM's statistics and shows them.

    An engine that has another scheduler sends none, and shows nothing. Whatever goes wrong here ends the metrics, not the
    engine.
    """

    def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        self._model_name = vllm_config.model_config.served_model_name
        self._metrics: _Metrics | None = None
        self._has_failed = False

    def record(self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0) -> None:
        """Statistics of one step of one engine have come."""
        if scheduler_stats is None or self._has_failed:
            return
        try:
            report = take_report(getattr(scheduler_stats, CARRIER))
            if report is not None:
                self._metrics = self._metrics or _Metrics()
                self._metrics.add(*report, labels=(self._model_name, str(engine_idx)))
        except Exception:
            self._has_failed = True
            logger.exception("agentix: no more metrics of program scheduling")

    def log_engine_initialized(self) -> None:
        """Nothing to say."""


class _Metrics:
    """The collectors, in the registry that vLLM shows; those of an engine that this process had before go."""

    def __init__(self) -> None:
        for collector in [c for c in REGISTRY._collector_to_names if str(getattr(c, "_name", "")).startswith("agentix:")]:
            REGISTRY.unregister(collector)
        self._counters = {
            name: prometheus_client.Counter(f"agentix:{name.replace('_us', '_seconds')}", text, _LABELS)
            for name, text in COUNTERS.items()
        }
        self._calls = prometheus_client.Gauge(
            "agentix:num_calls",
            "Calls by level (0 is served first) and state: running, waiting, parked with their KV, or held back.",
            (*_LABELS, "level", "state"),
            multiprocess_mode="mostrecent",
        )

    def add(self, counts: Counter[str], calls: dict[tuple[str, int], int], *, labels: tuple[str, str]) -> None:
        for name, counter in self._counters.items():
            counter.labels(*labels).inc(counts[name] / 1e6 if name.endswith("_us") else counts[name])
        for (state, level), number in calls.items():
            self._calls.labels(*labels, str(level), state).set(number)
