"""Engines on a Ray cluster of several machines, all of which are this one: joining, dying, draining, scaling."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from starlette.applications import Starlette

from agentix.cluster.ray_cluster import RayCluster, RayEngineError, connected
from agentix.cluster.ray_engines import ENGINE_KEY, engines_on_ray
from agentix.cluster.ray_scaling import ScalingSettings
from agentix.cluster.ray_settings import RaySettings
from agentix.core import ConfigError
from agentix.engine.launcher import EngineOptions
from agentix.gateway import GatewayConfig, create_app
from agentix.gateway.admission_settings import AdmissionSettings
from fake_engine import served
from gateway_system import CHAT

FAKE = Path(__file__).parents[1] / "ray_engine_process.py"
OPTIONS = EngineOptions(model="m", served_model_name="fake", command=(sys.executable, str(FAKE)))
SMALL = {"object_store_memory": 80 * 2**20}
# So that the head finds out within a second that a machine is gone.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster whose head has no room for engines, and one machine that has room for two."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - takes a second

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIX_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_agent_register_timeout_ms", "120000")  # a machine that does more than this test
        head = {"num_cpus": 0, "_system_config": QUICK, "include_dashboard": False, **SMALL}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(num_cpus=2, **SMALL)
            yield cluster
        finally:
            cluster.shutdown()


@dataclass
class System:
    """A gateway in front of engines on the cluster."""

    app: Starlette
    client: httpx2.AsyncClient

    @property
    def urls(self) -> dict[str, str]:
        """The engines that take calls, and where they are."""
        return {i: s.target.url for i, s in sorted(self.app.state.pool.states.items()) if s.takes_calls}

    async def chat(self, program_id: str = "p", **body: Any) -> httpx2.Response:
        return await self.client.post("/v1/chat/completions", json={**CHAT, **body}, headers={"X-Agentix-Program": program_id})

    async def pid(self, engine_id: str) -> int:
        """The process of an engine."""
        return int((await self.client.get(f"{self.urls[engine_id]}/pid")).text)

    async def release(self, engine_id: str, number: int) -> None:
        """Have an engine answer calls up to this number, which is their `seed`."""
        await self.client.post(f"{self.app.state.pool.states[engine_id].target.url}/release/{number}")

    async def restarted(self, engine_id: str, url: str) -> None:
        """Wait for another engine of that name; there are calls meanwhile, and all of them are answered."""
        async with asyncio.timeout(120):
            while self.urls.get(engine_id, url) == url:
                assert (await self.chat()).status_code == 200
                await asyncio.sleep(0.1)


@asynccontextmanager
async def system(cluster: Any, scaling: ScalingSettings, **rest: Any) -> AsyncIterator[System]:
    settings = RaySettings(address=cluster.address, scaling=scaling, gpus_per_engine=0)
    async with engines_on_ray(settings, OPTIONS, timeout_s=60.0, on_progress=print) as supervisor:
        config = GatewayConfig(engines=supervisor.targets, health_period_s=0.2, **rest)
        app = create_app(config, companions=[supervisor.beside])
        async with (
            served(app) as url,
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
        ):
            yield System(app, client)
    assert num_engine_processes() == 0
    assert ENGINE_KEY not in os.environ


def num_engine_processes() -> int:
    """Stand-ins that run on this machine, each with its guard."""
    return sum(str(FAKE) in (p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.05)


async def test_engines_ask_for_their_key_and_are_restarted_when_they_or_their_actors_die(cluster: Any) -> None:
    async with system(cluster, ScalingSettings(min_engines=2, max_engines=2)) as there:
        assert list(there.urls) == ["engine-0", "engine-1"]
        assert (await there.chat()).json()["choices"][0]["message"]["content"] == "héllo"
        stranger = await there.client.post(f"{there.urls['engine-0']}/v1/chat/completions", json=CHAT)
        assert stranger.status_code == 401

        pid, url = await there.pid("engine-0"), there.urls["engine-0"]
        os.kill(pid, signal.SIGKILL)
        await there.restarted("engine-0", url)
        assert await there.pid("engine-0") != pid

        pid, url = await there.pid("engine-1"), there.urls["engine-1"]
        os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)  # its actor
        await there.restarted("engine-1", url)
        assert not psutil.pid_exists(pid)


async def test_a_machine_that_disappears_takes_its_engine_along_and_another_one_gets_the_next(cluster: Any) -> None:
    machine = cluster.add_node(num_cpus=1, **SMALL)
    try:
        async with system(cluster, ScalingSettings(min_engines=3, max_engines=3)) as there:
            before = there.urls
            cluster.remove_node(machine, allow_graceful=False)
            for _ in range(10):
                assert (await there.chat()).status_code == 200
            await eventually(lambda: len(there.app.state.pool.states) == 2)
            left = there.urls
            assert left.items() < before.items()
            machine = cluster.add_node(num_cpus=1, **SMALL)
            await eventually(lambda: len(there.urls) == 3)
            assert left.items() < there.urls.items()
            assert there.urls.keys() == before.keys()
    finally:
        cluster.remove_node(machine)


async def test_work_that_waits_brings_an_engine_and_one_that_goes_finishes_its_calls(cluster: Any) -> None:
    scaling = ScalingSettings(max_engines=2, waiting_calls=1, idle_calls=2, grow_after_s=0.1, shrink_after_s=1)
    one_at_a_time = AdmissionSettings(max_concurrency=1)
    async with system(cluster, scaling, admission=one_at_a_time, balancer="least_used") as there:
        calls = [asyncio.create_task(there.chat(f"p{n}", seed=1)) for n in range(3)]
        await eventually(lambda: len(there.urls) == 2)
        states = there.app.state.pool.states
        await eventually(lambda: states["engine-1"].num_calls == 1)  # one of those that were held for the first engine
        calls.append(asyncio.create_task(there.chat("q", seed=2)))
        for engine_id in states:
            await there.release(engine_id, 1)
        answers = await asyncio.gather(*calls[:3])
        assert [a.status_code for a in answers] == [200, 200, 200]
        assert {a.headers["x-agentix-engine"] for a in answers} == {"engine-0", "engine-1"}

        # Two calls are no work for two engines: one of them goes, but not before its call is over.
        calls.append(asyncio.create_task(there.chat("r", seed=2)))
        await eventually(lambda: [s.num_calls for s in states.values() if s.leaving] == [1])
        for engine_id in tuple(states):
            await there.release(engine_id, 2)
        assert [a.status_code for a in await asyncio.gather(*calls[3:])] == [200, 200]
        await eventually(lambda: len(states) == 1 and num_engine_processes() == 2)


async def test_two_gateways_on_one_cluster_have_an_engine_of_one_name_each(cluster: Any) -> None:
    settings = RaySettings(address=cluster.address, gpus_per_engine=0)
    async with connected(cluster.address):
        gateways = [RayCluster(settings, OPTIONS, key="k", timeout_s=60.0) for _ in range(2)]
        engines = [await gateway.start(0) for gateway in gateways]
        assert [engine.engine_id for engine in engines] == ["engine-0", "engine-0"]
        assert engines[0].url != engines[1].url
        for engine in engines:
            await engine.stop()
    assert num_engine_processes() == 0


async def test_an_engine_that_there_is_no_room_for_is_refused(cluster: Any) -> None:
    settings = RaySettings(address=cluster.address, gpus_per_engine=8, tensor_parallel=8)
    with pytest.raises(RayEngineError, match=r"engine-0: not up after 3 s; is \{'CPU': 1.0, 'GPU': 8.0\} free on a machine"):
        async with engines_on_ray(settings, OPTIONS, timeout_s=3.0, on_progress=print):
            pass


async def test_an_engine_that_cannot_start_is_reported_with_its_last_lines(cluster: Any) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no such model')")
    settings = RaySettings(address=cluster.address, gpus_per_engine=0)
    broken = EngineOptions(model="m", served_model_name="fake", command=command)
    with pytest.raises(RayEngineError, match=r"engine-0 exited with status 1 while starting; its last lines:\n +no such model"):
        async with engines_on_ray(settings, broken, timeout_s=60.0, on_progress=print):
            pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:99999"])
async def test_without_a_cluster_there_is_an_error_that_says_so(address: str) -> None:
    with pytest.raises(ConfigError, match=f"no Ray cluster at '{address}'"):
        async with connected(address):
            pass
