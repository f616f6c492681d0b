"""Traces for OpenTelemetry: one for each program, its calls as spans. Names follow the conventions for generative AI.

The conventions are in development (https://opentelemetry.io/docs/specs/semconv/gen-ai/); names of ours begin with `agentix.`.
This module needs the extra `otel`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentix import __version__
from agentix.core.program import ProgramRow
from agentix.gateway.observer import Observer
from agentix.gateway.outcome import Outcome

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

MAX_PROGRAMS = 10_000
_CLOSE_S = 5.0
_TRACES_PATH = "/v1/traces"
_OPERATIONS = {"/v1/completions": "text_completion", "/v1/embeddings": "embeddings"}  # others: chat
_PROVIDERS = {"/v1/messages": "anthropic"}  # whose API it is, not who serves it; others: openai
_MAX_CHARS = 256


class Tracing(Observer):
    """Spans of programs and their calls.

    A program's span begins with its first call and ends with its last, and is exported only when the program is over, which
    may take hours; those of its calls are exported as they end, and name it as their parent. A client's own `traceparent` is
    neither taken over, since many clients begin a trace for each request, nor changed: the call's span has a link to it.

    Which programs are sampled is the provider's decision; a program's calls follow it. At most `max_programs` spans of
    programs are open: of more, the one that was without a call for longest ends, and its next call begins a new trace.
    Exporting is the provider's business and must not block (`export_to`).
    """

    def __init__(
        self, provider: TracerProvider, *, max_programs: int = MAX_PROGRAMS, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("agentix.gateway", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._max_programs = max_programs
        self._wall_ns = wall_ns
        self._programs: OrderedDict[str, tuple[Span, int]] = OrderedDict()  # and when its last call was over, in ns since 1970
        self._calls: dict[str, tuple[Span, int]] = {}  # and where the monotonic clock's 0 was at arrival, in ns since 1970

    def arrived(self, call: Call, now: float) -> None:
        """Begin the call's span, and the program's if need be."""
        zero_ns = self._zero_ns(now)
        began_ns = zero_ns + _ns(call.arrived_s)
        parent = set_span_in_context(self._program(call, began_ns), Context())
        attributes = _describe(call)
        span = self._tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {attributes.get('gen_ai.request.model', '')}".rstrip(),
            context=parent,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=self._links(call.request.headers),
            start_time=began_ns,
        )
        self._calls[call.key] = span, zero_ns

    def held(self, call: Call, reason: str, now: float) -> None:
        """Note why it waits."""
        self._note(call, "agentix.held", now, {"agentix.reason": reason})

    def sent(self, call: Call, engine_id: str, now: float) -> None:
        """Note where it goes."""
        self._note(call, "agentix.sent", now, {"agentix.engine.id": engine_id})
        self._calls[call.key][0].set_attribute("agentix.engine.id", engine_id)

    def first_token(self, call: Call, now: float) -> None:
        """Note that its answer has begun."""
        self._note(call, "agentix.first_token", now, {})

    def over(self, call: Call, now: float) -> None:
        """End the call's span with what it has cost."""
        span, zero_ns = self._calls.pop(call.key)
        span.set_attributes({name: value for name, value in _result(call).items() if value is not None})
        if call.outcome is not Outcome.FINISHED:
            span.set_attribute("error.type", call.outcome.value)
            span.set_status(StatusCode.ERROR, call.reason)
        ended_ns = zero_ns + _ns(now)
        span.end(ended_ns)
        program_id = call.identity.program_id
        if program_id in self._programs:
            self._programs[program_id] = self._programs[program_id][0], ended_ns

    def program_over(self, row: ProgramRow) -> None:
        """End the program's span with what it has had."""
        if row.program_id not in self._programs:
            return
        span, ended_ns = self._programs.pop(row.program_id)
        if row.program_class:
            span.update_name(f"invoke_agent {row.program_class}")
            span.set_attribute("gen_ai.agent.name", row.program_class)
        span.set_attributes(
            {
                "agentix.num_finished": row.num_finished,
                "agentix.num_aborted": row.num_aborted,
                "agentix.service_s": row.service_s,
                "agentix.waiting_s": row.waiting_s,
                "agentix.critical_path_s": row.critical_path_s,
            }
        )
        span.end(ended_ns)

    def close(self) -> None:
        """End what is open and export what is left. Takes at most a few seconds, whoever does not answer."""
        while self._programs:
            self._cut()
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(_CLOSE_S)

    def _program(self, call: Call, began_ns: int) -> Span:
        """The span of the call's program, which is now the one with the latest call."""
        program_id = call.identity.program_id
        if program_id not in self._programs:
            attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": call.identity.shown_id,
                "agentix.tenant": call.tenant,
            }
            span = self._tracer.start_span("invoke_agent", context=Context(), attributes=attributes, start_time=began_ns)
            self._programs[program_id] = span, began_ns
            if len(self._programs) > self._max_programs:
                self._cut()
        self._programs.move_to_end(program_id)
        return self._programs[program_id][0]

    def _cut(self) -> None:
        """End the span of the program that was without a new call for longest."""
        _, (span, ended_ns) = self._programs.popitem(last=False)
        span.end(ended_ns)

    def _links(self, headers: Mapping[str, str]) -> list[Link]:
        context = get_current_span(self._propagator.extract(headers, Context())).get_span_context()
        return [Link(context)] if context.is_valid else []

    def _note(self, call: Call, name: str, now: float, attributes: Mapping[str, str]) -> None:
        span, zero_ns = self._calls[call.key]
        span.add_event(name, attributes, zero_ns + _ns(now))

    def _zero_ns(self, now: float) -> int:
        """When the monotonic clock, which says `now`, was 0: nanoseconds since 1970. Clocks may drift, so it is asked anew."""
        return self._wall_ns() - _ns(now)


def _ns(moment_s: float) -> int:
    return round(moment_s * 1e9)


def _describe(call: Call) -> dict[str, str | int | bool]:
    """What is known of a call when it comes; nothing of what it says."""
    path, body = call.request.scope["path"], call.body
    attributes: dict[str, str | int | bool] = {
        "gen_ai.operation.name": _OPERATIONS.get(path, "chat"),
        "gen_ai.provider.name": _PROVIDERS.get(path, "openai"),
        "gen_ai.conversation.id": call.identity.shown_id,
        "gen_ai.request.stream": body.get("stream") is True,
        "agentix.call.id": call.call_id,
        "agentix.thread.id": call.identity.thread_id,
        "agentix.tenant": call.tenant,
    }
    model = body.get("model")
    if isinstance(model, str):
        attributes["gen_ai.request.model"] = model[:_MAX_CHARS]
    limit = next((body[name] for name in ("max_tokens", "max_completion_tokens", "max_output_tokens") if name in body), None)
    if isinstance(limit, int) and not isinstance(limit, bool) and abs(limit) < 2**63:  # what OTLP can say
        attributes["gen_ai.request.max_tokens"] = limit
    return attributes


def _result(call: Call) -> dict[str, Any]:
    """What is known of it when it is over; None where nothing is."""
    account, first_s = call.account, call.first_token_s
    return {
        "gen_ai.usage.input_tokens": account.prompt_tokens,
        "gen_ai.usage.output_tokens": account.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": account.cached_tokens,
        "gen_ai.response.time_to_first_chunk": None if first_s is None else first_s - call.arrived_s,
        "agentix.outcome": call.outcome.value,
        "agentix.level": call.level,
        "agentix.queue_s": None if call.sent_s is None else call.sent_s - call.arrived_s,
        "agentix.service_s": account.service_s,
        "agentix.engine_queue_s": account.waiting_s,
    }


def export_to(endpoint: str | None) -> Tracing:
    """Tracing that exports over OTLP (HTTP, protobuf), in a thread of its own; what nobody takes is dropped.

    `endpoint` is the collector's root or the path for traces; None: what the standard environment says. The rest is up to that
    environment alone (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, OTEL_BSP_…).
    """
    url = endpoint and endpoint.rstrip("/").removesuffix(_TRACES_PATH) + _TRACES_PATH
    ours = {"service.name": "agentix", "service.version": __version__}
    resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return Tracing(provider)
