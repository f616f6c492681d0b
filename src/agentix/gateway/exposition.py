"""GET /metrics: what the gateway has counted, and how it stands now, in Prometheus's text format (docs/metrics.md)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from math import isinf

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from agentix.core.policies import make_policy
from agentix.core.process_table import ProcessTable
from agentix.gateway.admission import Admission
from agentix.gateway.engines import EnginePool
from agentix.gateway.histogram import Histogram
from agentix.gateway.metrics import ClassFigures, EngineFigures, GatewayMetrics
from agentix.gateway.tenants import require_admin

PREFIX = "agentix_gateway_"
_BREAKER_STATES = ("closed", "half_open", "open")

_CLASS_HISTOGRAMS: tuple[tuple[str, str, Callable[[ClassFigures], Histogram]], ...] = (
    ("program_jct_seconds", "Arrival of a program to its last completion", lambda f: f.jct_s),
    ("program_token_latency_seconds", "Response time of a program per output token", lambda f: f.token_latency_s),
    ("program_slowdown", "Response time of a program over what it would be without waiting", lambda f: f.slowdown),
    ("program_wait_seconds", "Time that a program's calls have waited", lambda f: f.wait_s),
)
_ENGINE_HISTOGRAMS: tuple[tuple[str, str, Callable[[EngineFigures], Histogram]], ...] = (
    ("call_latency_seconds", "Arrival of a call to the end of its answer", lambda f: f.latency_s),
    ("time_to_first_token_seconds", "Arrival of a streaming call to the first piece of its answer", lambda f: f.ttft_s),
    ("call_wait_seconds", "Time of a call that was not service", lambda f: f.wait_s),
    ("call_hold_seconds", "Arrival of a call until the gateway sends it", lambda f: f.hold_s),
)


class Exposition(Collector):
    """One gateway's metrics, in a registry of its own: two gateways in one process count apart.

    Gauges are read off table, engines and queues when somebody asks, in time proportional to the active calls.
    """

    def __init__(self, metrics: GatewayMetrics, table: ProcessTable, pool: EnginePool, admission: Admission) -> None:
        self._metrics = metrics
        self._table = table
        self._pool = pool
        self._admission = admission
        self._num_levels = len(make_policy(admission.settings.scheduler).quanta_s)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def show(self, request: Request) -> Response:
        """GET /metrics; where there are tenants, for admins: it tells of all of them."""
        require_admin(request)
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    def collect(self) -> Iterable[Metric]:
        """All metrics, as of now."""
        yield from self._of_classes()
        yield from self._of_engines()
        yield from self._of_tenants()
        yield from self._programs_now()
        yield from self._engines_now()
        yield from self._queues_now()

    def _of_classes(self) -> Iterable[Metric]:
        classes = list(self._metrics.classes.figures())
        for name, text, histogram in _CLASS_HISTOGRAMS:
            yield _histogram(name, text, "class", [(label, histogram(f)) for label, f in classes])
        programs = _counter("programs", "Programs that are over", "class", "outcome")
        for label, figures in classes:
            programs.add_metric([label, "ok"], figures.num_ok)
            programs.add_metric([label, "failed"], figures.num_failed)
        yield programs

    def _of_engines(self) -> Iterable[Metric]:
        engines = [(label, f) for label, f in self._metrics.engines.figures() if label in self._pool.states or f.outcomes]
        for name, text, histogram in _ENGINE_HISTOGRAMS:
            yield _histogram(name, text, "engine", [(label, histogram(f)) for label, f in engines])
        calls = _counter("calls", "Calls that are over", "engine", "outcome")
        retries = _counter("retries", "Calls sent here after they had been sent before", "engine")
        moves = _counter("moves", "Calls of programs at home here that were routed elsewhere", "engine", "reason")
        prompts = _counter("prompt_tokens", "Tokens of finished calls' prompts, by where KV came from", "engine", "source")
        outputs = _counter("output_tokens", "Tokens of finished calls' answers", "engine")
        for label, figures in engines:
            for outcome, count in sorted(figures.outcomes.items()):
                calls.add_metric([label, outcome.value], count)
            for source, num_tokens in sorted(figures.prompt_tokens.items()):
                prompts.add_metric([label, source], num_tokens)
            for reason, count in sorted(figures.moves.items()):
                moves.add_metric([label, reason], count)
            retries.add_metric([label], figures.num_retries)
            outputs.add_metric([label], figures.num_output_tokens)
        yield from (calls, retries, moves, prompts, outputs)

    def _of_tenants(self) -> Iterable[Metric]:
        calls = _counter("tenant_calls", "A tenant's calls that are over", "tenant")
        service = _counter("tenant_service_seconds", "Service that a tenant's calls have had", "tenant")
        tokens = _counter("tenant_tokens", "Tokens of a tenant's calls", "tenant", "kind")
        rejections = _counter("rejections", "Calls that the gateway refused by itself", "tenant", "reason")
        for label, figures in self._metrics.tenants.figures():
            calls.add_metric([label], figures.num_calls)
            service.add_metric([label], figures.service_s)
            tokens.add_metric([label, "prompt"], figures.num_prompt_tokens)
            tokens.add_metric([label, "output"], figures.num_output_tokens)
            for reason, count in sorted(figures.rejections.items()):
                rejections.add_metric([label, reason], count)
        yield from (calls, service, tokens, rejections)

    def _programs_now(self) -> Iterable[Metric]:
        rows = (self._table.row(program_id) for program_id in {c.program_id for c in self._table.calls.values()})
        by_class = Counter(self._metrics.classes.shown(row.program_class) for row in rows)
        active = _gauge("active_programs", "Programs with a call under way", "class")
        for label, _ in self._metrics.classes.figures():
            active.add_metric([label], by_class[label])
        yield active
        yield GaugeMetricFamily(PREFIX + "live_programs", "Programs that are not over", value=len(self._table.rows))

    def _engines_now(self) -> Iterable[Metric]:
        by_engine = Counter(call.engine_id for call in self._table.calls.values())
        active = _gauge("active_calls", "Calls under way, held ones too", "engine")
        sent = _gauge("engine_calls", "Calls in the engine", "engine")
        available = _gauge("engine_available", "Whether the engine takes calls", "engine")
        breakers = _gauge("breaker_state", "1 for the state in which the engine's circuit breaker is", "engine", "state")
        now = time.monotonic()
        for engine_id, state in self._pool.states.items():
            active.add_metric([engine_id], by_engine[engine_id])
            sent.add_metric([engine_id], state.num_calls)
            available.add_metric([engine_id], float(state.takes_calls))
            is_in = state.breaker.state(now)
            for name in _BREAKER_STATES:
                breakers.add_metric([engine_id, name], float(name == is_in))
        yield from (active, sent, available, breakers)

    def _queues_now(self) -> Iterable[Metric]:
        limits = _gauge("engine_limit", "Calls that the gateway lets into the engine at a time", "engine")
        held = _gauge("held_calls", "Calls that the gateway holds, by level", "engine", "level")
        waiting = _gauge("engine_waiting_calls", "Calls that wait in the engine, whoever sent them", "engine")
        queues = {engine_id: self._admission.turns.queue(engine_id) for engine_id in self._pool.states}
        places = (place for place in self._admission.places.values() if place.sent_s is None and place.engine_id in queues)
        by_level = Counter((place.engine_id, queues[place.engine_id].level(place)) for place in places)
        for engine_id, queue in queues.items():
            limits.add_metric([engine_id], queue.limit.limit)
            num_waiting = self._pool.states[engine_id].gauge.num_waiting(queue.num_running)
            if num_waiting is not None:
                waiting.add_metric([engine_id], num_waiting)
            for level in range(self._num_levels):
                held.add_metric([engine_id, str(level)], by_level[engine_id, level])
        yield from (limits, held, waiting)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(PREFIX + name, text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=labels)


def _histogram(name: str, text: str, label: str, values: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=[label])
    for value, histogram in values:
        buckets = [("+Inf" if isinf(bound) else repr(bound), float(count)) for bound, count in histogram.cumulative()]
        family.add_metric([value], buckets, sum_value=histogram.sum)
    return family
