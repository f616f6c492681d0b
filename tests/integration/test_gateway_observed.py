"""What a gateway tells the outside of its calls: traces and logs, in order, without a word of what was said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from agentix.gateway.listeners import make_listeners
from agentix.gateway.log import CallLog, set_up_logging
from agentix.gateway.observer import Observer
from agentix.gateway.tracing import Tracing
from fake_engine import FakeEngine
from gateway_system import eventually, gateway

SECRET = "sk-very-secret-0123456789abcdef0123456789"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that this process logs from now on, down to the last detail, as JSON."""
    root, calls = logging.getLogger(), logging.getLogger("agentix.calls")
    before = root.handlers[:], root.level, calls.level
    stream = io.StringIO()
    set_up_logging("json", calls=True, stream=stream)
    root.setLevel(logging.DEBUG)
    yield stream
    root.handlers[:], root.level = before[0], before[1]
    calls.setLevel(before[2])


class Exported:
    """Spans in memory, exported as in production: in batches, by a thread."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(self.exporter, schedule_delay_millis=20))
        self.tracing = Tracing(provider)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [s for s in self.exporter.get_finished_spans() if s.name.startswith(name)]


def lines_of_calls(log: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in lines if line["logger"] == "agentix.calls"]


async def test_a_program_is_a_trace_and_each_call_a_line(log: io.StringIO) -> None:
    exported, engine = Exported(), FakeEngine()
    async with gateway(engine, observers=(exported.tracing, CallLog())) as system:
        await system.post("/v1/programs", {"program_id": "p", "class": "coder"})
        await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "1"})
        await eventually(lambda: len(exported.spans("chat")) == 1)  # exported at once
        await system.chat({"X-Agentix-Program": "p", "X-Agentix-Call": "2"}, stream=True)
        await eventually(lambda: len(lines_of_calls(log)) == 2)
        assert not exported.spans("invoke_agent")
        await system.client.delete("/v1/programs/p")
    (program,) = exported.spans("invoke_agent")
    assert program.name == "invoke_agent coder"
    calls = exported.spans("chat fake")
    assert [s.parent and s.parent.span_id for s in calls] == [program.context.span_id] * 2
    assert [[e.name for e in s.events] for s in calls] == [["agentix.sent"], ["agentix.sent", "agentix.first_token"]]
    assert [dict(s.attributes or {})["gen_ai.usage.output_tokens"] for s in calls] == [3, 3]
    first, second = lines_of_calls(log)
    assert [(line["program"], line["call"], line["outcome"], line["engine"]) for line in (first, second)] == [
        ("p", "1", "finished", "e0"),
        ("p", "2", "finished", "e0"),
    ]
    assert (first["ttft_ms"], first["output_tokens"]) == (None, 3)
    assert 0 <= second["queue_ms"] <= second["ttft_ms"] <= second["latency_ms"]


async def test_nothing_of_prompts_answers_and_keys_gets_out(log: io.StringIO) -> None:
    """Through every way in which a call can come out, and through what the gateway refuses."""
    exported, engine = Exported(), FakeEngine()
    said = {"messages": [{"role": "user", "content": f"prompt {SECRET}"}], "user": f"user {SECRET}", "metadata": {"k": SECRET}}
    headers = {"Authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "Cookie": f"c={SECRET}", "X-Agentix-Program": "p"}
    async with gateway(engine, observers=(exported.tracing, CallLog())) as system:
        for mode in ("ok", "refuse", "plain"):
            engine.mode = mode
            for stream in (False, True):
                await system.chat(headers, **said, stream=stream)
        engine.mode = "break"
        await system.chat(headers, **said, stream=True)
        engine.mode = "hang"
        leaving = asyncio.create_task(system.chat(headers, **said))
        await eventually(lambda: engine.num_active == 1)
        leaving.cancel()
        engine.mode = "ok"
        await system.post("/v1/chat/completions", {**said, "model": "fake", "tools": SECRET, "max_tokens": SECRET}, headers)
        await system.client.post("/v1/chat/completions", content=f"{{{SECRET}", headers=headers)
        await eventually(lambda: not system.table.calls)
        metrics = (await system.client.get("/metrics", headers=headers)).text
        await system.client.delete("/v1/programs/p")
    spans = json.dumps([json.loads(s.to_json()) for s in exported.spans()])
    assert len(lines_of_calls(log)) == len(exported.spans("chat")) >= 8
    for text in (log.getvalue(), spans, metrics):
        assert text
        assert SECRET not in text
        assert "héllo" not in text
        assert "h\\u00e9" not in text


async def test_a_collector_that_does_not_answer_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that refuses connections nor one that takes them and is silent, nor when the gateway stops."""
    monkeypatch.setattr("agentix.gateway.tracing._CLOSE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            (tracing,) = make_listeners(log_calls=False, otlp_endpoint=f"http://127.0.0.1:{port}", environ={})
            async with asyncio.timeout(9):  # exporters try for ten seconds
                async with gateway(FakeEngine(), observers=(tracing,)) as system:
                    for n in range(30):
                        assert (await system.chat({"X-Agentix-Program": f"p{n}"})).status_code == 200


async def test_an_observer_that_fails_does_not_fail_the_call(log: io.StringIO) -> None:
    class Broken(Observer):
        def arrived(self, call: Any, now: float) -> None:
            raise RuntimeError("a fault")

    async with gateway(FakeEngine(), observers=(Broken(), CallLog())) as system:
        assert (await system.chat()).status_code == 200
        assert (await system.chat()).status_code == 200
    assert [line["outcome"] for line in lines_of_calls(log)] == ["finished", "finished"]
    assert log.getvalue().count("has failed and is told nothing more") == 1
