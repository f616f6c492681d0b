"""The supervisor over engines that live in the test: what dies, joins and goes, and what the gateway knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentix.cluster import ray_supervisor
from agentix.cluster.ray_scaling import Load, ScalingSettings
from agentix.cluster.ray_settings import RaySettings
from agentix.cluster.ray_supervisor import Engine, Supervisor, restart_delay_s
from agentix.core import AgentixError
from agentix.gateway import EngineTarget, GatewayConfig, create_app
from agentix.gateway.engines import EnginePool
from gateway_system import eventually


class Running:
    """An engine that does nothing but live."""

    def __init__(self, number: int) -> None:
        self.engine_id = f"engine-{number}"
        self.url = f"http://127.0.0.1:{number + 1}"  # nobody listens there
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.num_stops = 0

    async def died(self) -> str:
        return await asyncio.shield(self.death)

    async def stop(self) -> None:
        self.num_stops += 1


class Machines:
    """Where they come from. `errors`: of the next starts, in order; `is_open`: whether a start comes to its end."""

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.running: list[Running] = []
        self.num_cancelled = 0

    async def start(self, number: int) -> Engine:
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        if self.errors:
            raise AgentixError(self.errors.pop(0))
        self.running.append(Running(number))
        return self.running[-1]

    @property
    def stopped(self) -> list[str]:
        return [e.engine_id for e in self.running if e.num_stops]


class Fleet:
    """A supervisor at work, with a load and a clock that are the test's."""

    def __init__(self, machines: Machines, supervisor: Supervisor, pool: EnginePool) -> None:
        self.machines = machines
        self.supervisor = supervisor
        self.pool = pool
        self.now = 0.0
        self.load: dict[str, Any] = {}

    @property
    def serving(self) -> list[str]:
        return [i for i, state in self.pool.states.items() if not state.draining]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No waiting; gives the numbers of failures that there were delays for."""
    delays: list[int] = []

    def delay(num_failures: int) -> float:
        delays.append(num_failures)
        return 0.01

    monkeypatch.setattr(ray_supervisor, "restart_delay_s", delay)
    monkeypatch.setattr(ray_supervisor, "_WATCH_S", 0.01)
    return delays


def _target(engine: Engine) -> EngineTarget:
    return EngineTarget(engine_id=engine.engine_id, url=engine.url, plugin=True)


@asynccontextmanager
async def fleet(
    monkeypatch: pytest.MonkeyPatch, machines: Machines, *, drain_s: float = 60.0, least: int = 1, most: int = 4
) -> AsyncIterator[Fleet]:
    made: list[Fleet] = []

    def load(pool: Any, admission: Any, ids: Any, *, num_engines: int, num_starting: int, now: float) -> Load:
        return Load(num_engines=num_engines, num_starting=num_starting, **made[0].load)

    monkeypatch.setattr(ray_supervisor, "read_load", load)
    settings = RaySettings(scaling=ScalingSettings(min_engines=least, max_engines=most), drain_s=drain_s)

    def clock() -> float:
        return made[0].now if made else 0.0

    supervisor = Supervisor(machines, settings, target_for=_target, period_s=0.01, clock=clock)
    await supervisor.open()
    app = create_app(GatewayConfig(engines=supervisor.targets), companions=[supervisor.beside])
    made.append(Fleet(machines, supervisor, app.state.pool))
    async with app.router.lifespan_context(app):
        yield made[0]
        supervisor.check()
    await supervisor.close()
    assert all(e.num_stops == 1 for e in machines.running)


async def until(fleet: Fleet, serving: list[str]) -> None:
    await eventually(lambda: fleet.serving == serving)


async def change(fleet: Fleet, seconds: float, until: Callable[[], bool], **load: Any) -> None:
    """Let the load be like this for so long."""
    fleet.load = load
    await asyncio.sleep(0.03)  # it has been seen
    fleet.now += seconds
    await eventually(until)


def test_a_start_is_tried_again_at_once_and_then_less_and_less_often() -> None:
    assert [restart_delay_s(n) for n in (1, 2, 3, 6, 7, 5000)] == [1, 2, 4, 32, 60, 60]


async def test_an_engine_that_dies_is_forgotten_and_started_again_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines(), least=2) as there:
        assert there.serving == ["engine-0", "engine-1"]
        dead = there.pool.states["engine-0"]
        there.machines.running[0].death.set_result("killed")
        await eventually(lambda: there.pool.states.get("engine-0") not in (None, dead))
        assert there.machines.stopped == ["engine-0"]
        assert [e.engine_id for e in there.machines.running] == ["engine-0", "engine-1", "engine-0"]


async def test_failures_in_a_row_are_counted_until_an_engine_has_lived_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, quick: list[int]
) -> None:
    machines = Machines()
    async with fleet(monkeypatch, machines) as there:
        machines.errors = ["no memory", "no memory"]
        machines.running[0].death.set_result("killed")
        await eventually(lambda: len(machines.running) == 2)
        assert quick == [1, 2, 3]
        there.now = 60.0
        machines.running[1].death.set_result("killed")
        await eventually(lambda: len(machines.running) == 3)
        assert quick == [1, 2, 3, 1]


async def test_the_first_start_is_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines("engine-0: no such model")
    with pytest.raises(AgentixError, match="no such model"):
        async with fleet(monkeypatch, machines, least=3):
            pass
    assert machines.stopped == [e.engine_id for e in machines.running]


async def test_waiting_calls_bring_engines_and_the_gateway_gets_to_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines()) as there:
        await change(there, 15.0, lambda: there.serving == ["engine-0", "engine-1"], num_waiting=5)


async def test_an_idle_engine_finishes_its_calls_and_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines(), most=2) as there:
        await change(there, 15.0, lambda: len(there.serving) == 2, num_waiting=5)
        first, second = there.pool.states.values()
        first.num_calls, second.num_calls = 2, 1  # the second has less to lose
        await change(there, 300.0, lambda: there.serving == ["engine-0"])
        assert there.pool.states["engine-1"].leaving
        await asyncio.sleep(0.05)
        assert there.machines.stopped == []
        second.num_calls = 0
        there.pool.left(second)
        await eventually(lambda: there.machines.stopped == ["engine-1"])
        await change(there, 15.0, lambda: there.serving == ["engine-0", "engine-1"], num_waiting=5)  # the name is free again


async def test_calls_that_do_not_end_are_broken_off_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines(), most=2, drain_s=0.2) as there:
        await change(there, 15.0, lambda: len(there.serving) == 2, num_waiting=5)
        first, second = there.pool.states.values()
        first.num_calls, second.num_calls = 2, 1

        def cut() -> None:
            second.num_calls = 0
            there.pool.left(second)

        second.cuts.add(cut)
        await change(there, 300.0, lambda: there.machines.stopped == ["engine-1"])


async def test_an_engine_that_is_still_being_started_is_the_first_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines()
    async with fleet(monkeypatch, machines, most=2) as there:
        machines.is_open.clear()
        there.load = {"num_waiting": 5}
        await asyncio.sleep(0.03)
        there.now += 15.0
        await asyncio.sleep(0.03)
        await change(there, 300.0, lambda: machines.num_cancelled == 1)
        machines.is_open.set()
        await asyncio.sleep(0.03)
        assert there.serving == ["engine-0"]


async def test_what_an_operator_removes_is_stopped_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines()) as there:
        removed = there.pool.states["engine-0"]
        await asyncio.sleep(0.03)  # it is watched by now
        there.pool.remove(removed)
        await eventually(lambda: there.machines.stopped == ["engine-0"])
        await eventually(lambda: there.pool.states.get("engine-0") not in (None, removed))


async def test_a_name_that_somebody_else_s_engine_has_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(monkeypatch, Machines()) as there:
        there.pool.add(EngineTarget(engine_id="engine-1", url="http://127.0.0.1:9"))
        await change(there, 15.0, lambda: there.serving == ["engine-0", "engine-1", "engine-2"], num_waiting=5)


async def test_a_failure_of_its_own_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(Machines(), RaySettings(), target_for=_target, period_s=0.01)
    theirs = EngineTarget(engine_id="theirs", url="http://127.0.0.1:9")
    app = create_app(GatewayConfig(engines=(theirs,)), companions=[supervisor.beside])
    monkeypatch.setattr(ray_supervisor, "decide", None)
    async with app.router.lifespan_context(app):
        await asyncio.sleep(0.2)
        with pytest.raises(ExceptionGroup):
            supervisor.check()
