"""What engines have to do, as the gateway sees it."""

from __future__ import annotations

import asyncio
import time

from agentix.cluster.ray_load import read_load
from agentix.cluster.ray_scaling import Load
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.concurrency import EngineLoad
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway


def load_of(system: System, now: float) -> Load:
    return read_load(system.app.state.pool, system.app.state.admission, {"e0"}, num_engines=1, num_starting=0, now=now)


async def test_held_calls_wait_and_those_of_a_paused_program_do_not() -> None:
    engine, other = FakeEngine(mode="hang"), FakeEngine()
    async with gateway(engine, other, admission=AdmissionSettings(max_concurrency=1)) as system:
        await system.client.post("/v1/engines/e1/drain", json={})
        calls = [asyncio.create_task(system.chat({"X-Agentix-Program": f"p{n}"}, stream=True)) for n in range(4)]
        admission = system.app.state.admission
        await eventually(lambda: engine.num_active == 1 and len(admission.places) == 4)
        held = [p for p in admission.places.values() if p.sent_s is None]
        now = time.monotonic()
        waited_s = sum(now - p.arrived_s for p in held)
        assert load_of(system, now) == Load(num_engines=1, num_waiting=3, waiting_s=waited_s, num_running=1)
        await system.client.post(f"/v1/programs/{held[0].program_id}/pause", json={})
        assert load_of(system, now).num_waiting == 2
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_wait_in_the_engine_s_own_queue_wait_too() -> None:
    engine = FakeEngine(mode="hang")
    async with gateway(engine, plugin=True) as system:
        calls = [asyncio.create_task(system.chat({"X-Agentix-Program": f"p{n}"}, stream=True)) for n in range(5)]
        await eventually(lambda: engine.num_active == 5)
        now = time.monotonic()
        assert load_of(system, now) == Load(num_engines=1, num_running=5)
        system.app.state.pool.states["e0"].gauge.loaded(EngineLoad(num_running=2, num_waiting=3), 5)
        assert load_of(system, now) == Load(num_engines=1, num_waiting=3, num_running=2)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
