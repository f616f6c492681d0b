"""Spans of programs and calls, worked out by hand, in an exporter that keeps them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import SpanKind, StatusCode

from agentix.core.program import ProgramRow
from agentix.gateway.outcome import Outcome
from agentix.gateway.tracing import Tracing, export_to
from observed_calls import Calls

ZERO_NS = 1_700_000_000_000_000_000  # when the clock of these tests was 0
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced(Calls):
    """Calls that are traced, on a wall clock that goes with the calls' own."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider, wall_ns=lambda: self.wall_ns, **settings)
        self.wall_ns = 0
        super().__init__(self.tracing)

    def arrive(self, program_id: str, call_id: str, now: float, **more: Any) -> Any:
        self.wall_ns = ZERO_NS + round(now * 1e9)
        return super().arrive(program_id, call_id, now, **more)

    @property
    def spans(self) -> list[ReadableSpan]:
        """What has been exported, oldest first."""
        return list(self.exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """Begin and end on the calls' clock."""
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time - ZERO_NS) / 1e9, (span.end_time - ZERO_NS) / 1e9


def test_a_call_is_a_span_with_its_moments_and_its_cost() -> None:
    calls = Traced()
    call = calls.arrive("p", "1", 10.0, body={"max_tokens": 64, "stream": True, "messages": [{"role": "user", "content": "x"}]})
    calls.observer.held(call, "held: level 2", 10.5)
    call.level = 2
    calls.send(call, "e0", 12.0)
    calls.begin(call, 13.0)
    calls.end(call, 16.0, prompt_tokens=9, cached_tokens=8, output_tokens=3, service_s=3.5, waiting_s=0.5)
    (span,) = calls.spans  # at once, while the program lives on
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert seconds(span) == (10.0, 16.0)
    assert [(e.name, (e.timestamp - ZERO_NS) / 1e9, dict(e.attributes or {})) for e in span.events] == [
        ("agentix.held", 10.5, {"agentix.reason": "held: level 2"}),
        ("agentix.sent", 12.0, {"agentix.engine.id": "e0"}),
        ("agentix.first_token", 13.0, {}),
    ]
    assert attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "p",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.time_to_first_chunk": 3.0,
        "agentix.call.id": "1",
        "agentix.thread.id": "",
        "agentix.tenant": "",
        "agentix.engine.id": "e0",
        "agentix.outcome": "finished",
        "agentix.level": 2,
        "agentix.queue_s": 2.0,
        "agentix.service_s": 3.5,
        "agentix.engine_queue_s": 0.5,
    }


def test_a_program_is_one_trace_that_ends_with_its_last_call() -> None:
    calls = Traced()
    for call_id, now in (("1", 10.0), ("2", 20.0)):
        calls.end(calls.arrive("p", call_id, now, tenant="acme"), now + 3.0, service_s=2.0)
    calls.end(calls.arrive("q", "1", 21.0), 22.0)
    calls.table.row("p").program_class = "coder"
    calls.end_program("p", 99.0)
    first, second, other, program = calls.spans
    assert (program.name, program.kind, program.parent, seconds(program)) == (
        "invoke_agent coder",
        SpanKind.INTERNAL,
        None,
        (10.0, 23.0),
    )
    assert attributes(program) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "p",
        "gen_ai.agent.name": "coder",
        "agentix.tenant": "acme",
        "agentix.num_finished": 2,
        "agentix.num_aborted": 0,
        "agentix.service_s": 4.0,
        "agentix.waiting_s": pytest.approx(2.0),
        "agentix.critical_path_s": 4.0,
    }
    for span in (first, second):
        assert span.parent is not None
        assert (span.parent.span_id, span.context.trace_id) == (program.context.span_id, program.context.trace_id)
    assert other.context.trace_id != program.context.trace_id


def test_a_client_s_trace_is_linked_and_not_taken_over() -> None:
    calls = Traced()
    calls.end(calls.arrive("p", "1", 1.0, headers={"traceparent": TRACEPARENT}), 2.0)
    calls.end(calls.arrive("p", "2", 3.0, headers={"traceparent": "00-nonsense"}), 4.0)
    linked, unlinked = calls.spans
    (link,) = linked.links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == tuple(TRACEPARENT.split("-")[1:3])
    assert linked.context.trace_id != link.context.trace_id
    assert linked.context.trace_id == unlinked.context.trace_id
    assert not unlinked.links


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.FINISHED])
def test_a_call_that_did_not_finish_is_an_error(outcome: Outcome) -> None:
    calls = Traced()
    calls.end(calls.arrive("p", "1", 1.0), 2.0, outcome)
    (span,) = calls.spans
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, f"it was {outcome}")
    assert attributes(span)["error.type"] == outcome.value
    assert "gen_ai.usage.output_tokens" not in attributes(span)


@pytest.mark.parametrize(
    ("path", "body", "name", "provider"),
    [
        ("/v1/completions", {}, "text_completion m", "openai"),
        ("/v1/embeddings", {}, "embeddings m", "openai"),
        ("/v1/responses", {"model": 7}, "chat", "openai"),
        ("/v1/messages", {"model": "x" * 500, "max_tokens": 2**70}, f"chat {'x' * 256}", "anthropic"),
    ],
)
def test_every_api_has_its_operation_and_provider(path: str, body: dict[str, Any], name: str, provider: str) -> None:
    calls = Traced()
    calls.end(calls.arrive("p", "1", 1.0, path=path, body=body), 2.0)
    (span,) = calls.spans
    assert (span.name, attributes(span)["gen_ai.provider.name"]) == (name, provider)
    assert "gen_ai.request.max_tokens" not in attributes(span)


def test_a_program_that_is_not_sampled_has_no_spans_at_all() -> None:
    calls = Traced(ALWAYS_OFF)
    call = calls.arrive("p", "1", 1.0)
    calls.send(call, "e", 1.0)
    calls.end(call, 2.0)
    calls.end_program("p", 3.0)
    assert calls.spans == []


def test_of_too_many_programs_the_one_longest_without_a_call_ends() -> None:
    calls = Traced(max_programs=2)
    for program_id, call_id, now in (("a", "1", 1.0), ("b", "1", 2.0), ("a", "2", 3.0), ("c", "1", 4.0), ("b", "2", 5.0)):
        calls.end(calls.arrive(program_id, call_id, now), now + 0.5)
    ended = [attributes(s)["gen_ai.conversation.id"] for s in calls.spans if s.name == "invoke_agent"]
    assert ended == ["b", "a"]  # c came, and then b again, in a trace of its own
    assert [seconds(s) for s in calls.spans if s.name == "invoke_agent"] == [(2.0, 2.5), (1.0, 3.5)]
    b_traces = {s.context.trace_id for s in calls.spans if attributes(s).get("gen_ai.conversation.id") == "b"}
    assert len(b_traces) == 2
    calls.tracing.program_over(ProgramRow(program_id="a", started_s=1.0))  # already ended: nothing more
    assert sum(s.name == "invoke_agent" for s in calls.spans) == 2


def test_closing_ends_and_exports_the_programs_that_live() -> None:
    calls = Traced()
    calls.end(calls.arrive("p", "1", 1.0), 2.0)
    calls.tracing.close()
    assert [(s.name, seconds(s)) for s in calls.spans] == [("chat m", (1.0, 2.0)), ("invoke_agent", (1.0, 2.0))]


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
        (None, "http://from-env:4318/v1/traces"),
    ],
)
def test_where_spans_go(endpoint: str | None, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://from-env:4318")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-gateway")
    tracing = export_to(endpoint)
    try:
        (processor,) = tracing._provider._active_span_processor._span_processors
        assert isinstance(processor, BatchSpanProcessor)  # it exports in a thread of its own
        assert processor.span_exporter._endpoint == url
        assert tracing._provider.resource.attributes["service.name"] == "my-gateway"
    finally:
        tracing.close()
