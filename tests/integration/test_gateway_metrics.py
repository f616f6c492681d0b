"""GET /metrics: a history worked out by hand, on a clock that stands still until the engine turns it on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response

from agentix.core.policies import make_policy
from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import FakeEngine, sse
from gateway_system import CHAT, System, eventually, gateway

Samples = dict[tuple[str, tuple[str, ...]], float]


@dataclass
class Clock:
    """Stands in for the module `time` in the gateway."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class TimedEngine(FakeEngine):
    """An answer takes `answer_s`; a stream says something when `begin` is set, and goes on after that when `go_on` is."""

    clock: Clock = field(default_factory=Clock)
    answer_s: float = 0.0
    begin: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request: Request) -> Response:
        self.clock.now += self.answer_s
        return await super().complete(request)

    async def events(self, body: Any) -> AsyncIterator[bytes]:
        first = True
        async for event in super().events(body):
            if first:
                yield sse({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})  # says nothing yet
                await self.begin.wait()
            yield event
            if first:
                await self.go_on.wait()
            first = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("app", "relay", "answers", "programs", "books", "waiting", "admission"):
        monkeypatch.setattr(f"agentix.gateway.{module}.time", clock)
    return clock


async def read(system: System) -> Samples:
    """Samples by name, less the prefix, and values of labels, in the order of the labels' names."""
    response = await system.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (s.name.removeprefix("agentix_gateway_"), tuple(s.labels.values())): s.value
        for family in text_string_to_metric_families(response.text)
        for s in family.samples
    }


def counted(samples: Samples) -> Samples:
    """What was counted and summed, without what has nothing: no gauges, no buckets."""
    return {key: value for key, value in samples.items() if value and key[0].endswith(("_total", "_sum", "_count"))}


async def test_a_history_is_counted_exactly(clock: Clock) -> None:
    engine = TimedEngine(clock=clock, answer_s=2.0)
    async with gateway(engine) as system:
        await system.post("/v1/programs", {"program_id": "p", "class": "coder"})
        await system.chat({"X-Agentix-Program": "p"})  # from 0 to 2
        clock.now = 3.0  # a tool
        engine.answer_s = 0.5
        async with system.client.stream(
            "POST", "/v1/chat/completions", json={**CHAT, "stream": True}, headers={"X-Agentix-Program": "p"}
        ) as answer:
            lines = answer.aiter_lines()  # from 3, first token at 4, to 12
            assert "assistant" in await anext(lines)
            clock.now = 4.0
            engine.begin.set()
            while "hé" not in await anext(lines):
                pass
            during = await read(system)
            assert (during["active_programs", ("coder",)], during["active_programs", ("other",)]) == (1, 0)
            assert (during["active_calls", ("e0",)], during["live_programs", ()]) == (1, 1)
            assert ("calls_total", ("e0", "finished")) in during
            clock.now = 12.0
            engine.go_on.set()
            async for _ in lines:
                pass
        await eventually(lambda: not system.table.calls)
        clock.now = 100.0  # nobody works for it any more
        await system.client.delete("/v1/programs/p")
        await system.client.post("/v1/programs", json={"program_id": "empty"})
        await system.client.delete("/v1/programs/empty")
        samples = await read(system)
    assert counted(samples) == {
        ("program_jct_seconds_sum", ("coder",)): 12.0,
        ("program_jct_seconds_count", ("coder",)): 1,
        ("program_token_latency_seconds_sum", ("coder",)): 2.0,  # 12 s for twice 3 tokens
        ("program_token_latency_seconds_count", ("coder",)): 1,
        ("program_slowdown_sum", ("coder",)): 2.4,  # 12 s for what 2 s of service, 1 s of a tool and 2 s of service would take
        ("program_slowdown_count", ("coder",)): 1,
        ("program_wait_seconds_sum", ("coder",)): 7.0,
        ("program_wait_seconds_count", ("coder",)): 1,
        ("call_latency_seconds_sum", ("e0",)): 2.0 + 9.0,
        ("call_latency_seconds_count", ("e0",)): 2,
        ("time_to_first_token_seconds_sum", ("e0",)): 1.0,
        ("time_to_first_token_seconds_count", ("e0",)): 1,
        ("call_wait_seconds_sum", ("e0",)): 7.0,  # of 9 s, 2 s were service
        ("call_wait_seconds_count", ("e0",)): 2,
        ("call_hold_seconds_count", ("e0",)): 2,
        ("programs_total", ("coder", "ok")): 1,
        ("calls_total", ("e0", "finished")): 2,
        ("prompt_tokens_total", ("e0", "unknown")): 14,
        ("output_tokens_total", ("e0",)): 6,
        ("tenant_calls_total", ("",)): 2,
        ("tenant_service_seconds_total", ("",)): 4.0,
        ("tenant_tokens_total", ("prompt", "")): 14,
        ("tenant_tokens_total", ("output", "")): 6,
    }
    assert samples["engine_available", ("e0",)] == 1
    assert [samples["breaker_state", ("e0", state)] for state in ("closed", "half_open", "open")] == [1, 0, 0]
    latency = {key[1][1]: value for key, value in samples.items() if key[0] == "call_latency_seconds_bucket"}
    assert [latency[le] for le in ("1.0", "2.5", "5.0", "10.0", "+Inf")] == [0, 1, 1, 2, 2]
    jct = {key[1][1]: v for key, v in samples.items() if key[0] == "program_jct_seconds_bucket" and key[1][0] == "coder"}
    assert [jct[le] for le in ("10.0", "25.0", "+Inf")] == [0, 1, 1]


async def test_calls_that_did_not_finish_and_refusals_are_counted_apart(clock: Clock) -> None:
    engine = TimedEngine(clock=clock, answer_s=1.0, mode="refuse")
    async with gateway(engine, max_body_bytes=2000) as system:
        await system.models_known()
        await system.chat({"X-Agentix-Program": "p"})
        engine.mode = "hang"
        for program_id, leave in (("p", False), ("q", True)):
            call = asyncio.create_task(system.chat({"X-Agentix-Program": program_id}))
            await eventually(lambda: engine.num_active == 1)
            if leave:
                call.cancel()
            else:
                await system.client.post(f"/v1/programs/{program_id}/cancel")
            await asyncio.gather(call, return_exceptions=True)
            await eventually(lambda: not system.table.calls)
            await eventually(lambda: engine.num_active == 0)
        engine.mode = "ok"
        await system.chat({"X-Agentix-Program": "q"})
        engine.mode = "break"
        engine.begin.set()
        engine.go_on.set()
        await system.chat({"X-Agentix-Program": "r"}, stream=True)
        for content in (b"{", b"[]", b'{"model": "unknown"}', b"{" + b" " * 2000):
            await system.client.post("/v1/chat/completions", content=content)
        for program_id in "pqr":
            await system.client.delete(f"/v1/programs/{program_id}")
        assert counted(await read(system)) == {
            ("call_latency_seconds_sum", ("e0",)): 1.0,
            ("call_latency_seconds_count", ("e0",)): 1,
            ("programs_total", ("", "failed")): 3,
            ("calls_total", ("e0", "refused")): 1,
            ("calls_total", ("e0", "cancelled")): 1,
            ("calls_total", ("e0", "disconnected")): 1,
            ("calls_total", ("e0", "finished")): 1,
            ("calls_total", ("e0", "lost")): 1,
            ("call_wait_seconds_count", ("e0",)): 1,  # it took less than the engine says it served
            ("call_hold_seconds_count", ("e0",)): 5,
            ("prompt_tokens_total", ("e0", "unknown")): 7,
            ("output_tokens_total", ("e0",)): 3,
            ("tenant_calls_total", ("",)): 5,
            ("tenant_service_seconds_total", ("",)): 5.0,  # 2 as the engine says, 1 each of three that it does not speak of
            ("tenant_tokens_total", ("prompt", "")): 7,
            ("tenant_tokens_total", ("output", "")): 3,
            ("rejections_total", ("bad_request", "")): 2,
            ("rejections_total", ("unknown_model", "")): 1,
            ("rejections_total", ("body_too_large", "")): 1,
        }


async def test_a_call_that_no_engine_took_is_rejected(clock: Clock) -> None:
    async with gateway(extra=("http://127.0.0.1:9",), health_period_s=60) as system:
        pool = system.app.state.pool
        await eventually(lambda: not pool.healthy())
        await system.chat()  # no call: nobody could take it
        pool.states["e0"].healthy = True
        await system.chat({"X-Agentix-Program": "p"})  # a call that reaches nobody
        await system.client.delete("/v1/programs/p")
        assert counted(await read(system)) == {
            ("rejections_total", ("no_engine", "")): 2,
            ("calls_total", ("e0", "rejected")): 1,
            ("call_hold_seconds_count", ("e0",)): 1,
            ("tenant_calls_total", ("",)): 1,
            ("programs_total", ("", "failed")): 1,
        }


async def test_held_calls_are_shown_by_level_and_a_full_queue_as_a_reason() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, admission=AdmissionSettings(max_concurrency=1, max_queue=1)) as system:
        calls = []
        for n in range(2):  # one is sent, one is held
            calls.append(asyncio.create_task(system.chat({"X-Agentix-Program": f"p{n}"})))
            await eventually(lambda: len(system.table.calls) == len(calls))
        await eventually(lambda: engine.num_active == 1)
        assert (await system.chat({"X-Agentix-Program": "p2"})).status_code == 503
        samples = await read(system)
        assert samples["engine_limit", ("e0",)] == samples["engine_calls", ("e0",)] == 1
        assert samples["active_calls", ("e0",)] == 2
        held = {key[1][1]: value for key, value in samples.items() if key[0] == "held_calls"}
        num_levels = len(make_policy(AdmissionSettings().scheduler).quanta_s)
        assert held == {str(level): float(level == 0) for level in range(num_levels)}
        assert samples["rejections_total", ("queue_full", "")] == 1
        for call in calls:
            call.cancel()
        await eventually(lambda: not system.table.calls)
        assert counted(await read(system))["calls_total", ("e0", "disconnected")] == 2


async def test_a_call_that_is_sent_again_is_counted_where_it_goes() -> None:
    async with gateway(FakeEngine(), extra=("http://127.0.0.1:9",), health_period_s=60, balancer="round_robin") as system:
        pool = system.app.state.pool
        await eventually(lambda: len(pool.healthy()) == 1)
        pool.states["e0"].healthy = True
        pool.states["e1"].num_routed = 1  # so that the dead one is first
        assert (await system.chat()).status_code == 200
        samples = counted(await read(system))
        assert samples["retries_total", ("e1",)] == 1
        assert samples["call_hold_seconds_count", ("e0",)] == 1  # held once, for the first
        assert ("call_hold_seconds_count", ("e1",)) not in samples


async def test_two_gateways_in_one_process_count_apart() -> None:
    async with gateway(FakeEngine()) as one, gateway(FakeEngine()) as other:
        await one.chat()
        assert (await read(one))["calls_total", ("e0", "finished")] == 1
        assert ("calls_total", ("e0", "finished")) not in await read(other)


async def test_any_name_of_a_class_can_be_read() -> None:
    async with gateway(FakeEngine()) as system:
        name = 'say "hi" \\n {é}'
        await system.post("/v1/programs", {"program_id": "p", "class": name})
        await system.chat({"X-Agentix-Program": "p"})
        await system.client.delete("/v1/programs/p")
        assert (await read(system))["programs_total", (name, "ok")] == 1
