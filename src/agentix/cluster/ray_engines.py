"""Engines on Ray for one gateway: from joining the cluster to leaving it."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from agentix.cluster.ray_cluster import RayCluster, connected
from agentix.cluster.ray_settings import RaySettings
from agentix.cluster.ray_supervisor import Engine, Supervisor
from agentix.engine.launcher import EngineOptions
from agentix.gateway.config import EngineTarget

ENGINE_KEY = "AGENTIX_ENGINE_KEY_RAY"


@asynccontextmanager
async def engines_on_ray(
    settings: RaySettings,
    options: EngineOptions,
    *,
    timeout_s: float,
    on_progress: Callable[[str], None],
) -> AsyncIterator[Supervisor]:
    """As many engines as there are at least, up and with their supervisor; at the end of the block all are gone.

    `options` are those of every engine; `timeout_s` is how long one may take, from looking for a place to being healthy.
    Engines listen on their machines' addresses (on loopback if the cluster is "local"), so they ask for a key: the one in
    the environment variable ENGINE_KEY, or a new one, which is put there. Raises ConfigError without a cluster, AgentixError
    if an engine does not start.
    """
    has_key = bool(os.environ.get(ENGINE_KEY))
    if not has_key:
        os.environ[ENGINE_KEY] = secrets.token_urlsafe(32)
    plugin = options.scheduler is not None
    host = "127.0.0.1" if settings.address == "local" else ""  # the machine's own
    options = replace(options, host=host, vllm_args=(*settings.vllm_args(), *options.vllm_args))

    def target_for(engine: Engine) -> EngineTarget:
        return EngineTarget(engine_id=engine.engine_id, url=engine.url, plugin=plugin, api_key_env=ENGINE_KEY)

    try:
        async with connected(settings.address):
            cluster = RayCluster(settings, options, key=os.environ[ENGINE_KEY], timeout_s=timeout_s)
            supervisor = Supervisor(cluster, settings, target_for=target_for)
            num = settings.scaling.min_engines
            on_progress(f"starting {num} engine(s) on the Ray cluster {settings.address}; their logs are on its machines")
            try:
                await supervisor.open()
                yield supervisor
            finally:
                await supervisor.close()
    finally:
        if not has_key:
            del os.environ[ENGINE_KEY]
