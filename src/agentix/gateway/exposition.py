"""GET /metrics: what the gateway has measured, in Prometheus's text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isinf

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from agentix.core.process_table import ProcessTable
from agentix.gateway.metrics import GatewayMetrics, Histogram

_PREFIX = "agentix_gateway_"


class Exposition(Collector):
    """One gateway's metrics, in a registry of its own: two gateways in one process count apart.

    Gauges are read from the process table when somebody asks, in time proportional to the active calls.
    """

    def __init__(self, metrics: GatewayMetrics, table: ProcessTable, engine_ids: Iterable[str]) -> None:
        self._metrics = metrics
        self._table = table
        self._engine_ids = tuple(engine_ids)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def show(self, request: Request) -> Response:
        """GET /metrics."""
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterable[Metric]:
        """All metrics, as of now."""
        classes, engines = list(self._metrics.classes()), sorted(self._metrics.engines.items())
        yield _histogram(
            "program_jct_seconds",
            "Arrival of a program to its last completion",
            "class",
            [(name, f.jct_s) for name, f in classes],
        )
        yield _histogram(
            "program_token_latency_seconds",
            "Response time of a program per output token",
            "class",
            [(name, f.token_latency_s) for name, f in classes],
        )
        yield _histogram(
            "call_latency_seconds",
            "Arrival of a call to the end of its answer",
            "engine",
            [(name, f.latency_s) for name, f in engines],
        )
        yield _histogram(
            "time_to_first_token_seconds",
            "Arrival of a streaming call to the first piece of its answer",
            "engine",
            [(name, f.ttft_s) for name, f in engines],
        )
        programs = CounterMetricFamily(_PREFIX + "programs", "Programs that are over", labels=["class", "outcome"])
        for name, figures in classes:
            programs.add_metric([name, "ok"], figures.num_ok)
            programs.add_metric([name, "failed"], figures.num_failed)
        yield programs
        calls = CounterMetricFamily(_PREFIX + "calls", "Calls that are over", labels=["engine", "outcome"])
        for engine_id, of_engine in engines:
            for outcome, count in sorted(of_engine.outcomes.items()):
                calls.add_metric([engine_id, outcome.value], count)
        yield calls
        rejections = CounterMetricFamily(_PREFIX + "rejections", "Calls that the gateway refused by itself", labels=["reason"])
        for reason, count in sorted(self._metrics.rejections.items()):
            rejections.add_metric([reason], count)
        yield rejections
        yield from self._gauges()

    def _gauges(self) -> Iterable[Metric]:
        calls = self._table.calls.values()
        active = GaugeMetricFamily(_PREFIX + "active_programs", "Programs with a call under way", labels=["class"])
        rows = (self._table.row(program_id) for program_id in {c.program_id for c in calls})
        by_class = Counter(self._metrics.label(row.program_class) for row in rows)
        for name, _ in self._metrics.classes():
            active.add_metric([name], by_class[name])
        yield active
        yield GaugeMetricFamily(_PREFIX + "live_programs", "Programs that are not over", value=len(self._table.rows))
        on_engines = GaugeMetricFamily(_PREFIX + "active_calls", "Calls under way", labels=["engine"])
        by_engine = Counter(call.engine_id for call in calls)
        for engine_id in self._engine_ids:
            on_engines.add_metric([engine_id], by_engine[engine_id])
        yield on_engines


def _histogram(name: str, text: str, label: str, values: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(_PREFIX + name, text, labels=[label])
    for value, histogram in values:
        buckets = [("+Inf" if isinf(bound) else repr(bound), float(count)) for bound, count in histogram.cumulative()]
        family.add_metric([value], buckets, sum_value=histogram.sum)
    return family
