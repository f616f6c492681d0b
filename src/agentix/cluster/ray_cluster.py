"""Engines as Ray actors: the connection to a cluster, a place for each engine, and the engine's life there."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from agentix.cluster.ray_engine import RayEngine, Started
from agentix.cluster.ray_settings import RaySettings
from agentix.core.errors import AgentixError, ConfigError
from agentix.engine.launcher import EngineOptions

NAMESPACE = "agentix"
_REACH_S = 5.0
_STOP_S = 30.0


class RayEngineError(AgentixError):
    """`engine_id` could not be started; the message says why."""

    def __init__(self, engine_id: str, why: str) -> None:
        super().__init__(f"{engine_id}: {why}")
        self.engine_id = engine_id


def import_ray() -> Any:
    """The module `ray`. Raises ConfigError, which says what to install."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(f"ray cannot be imported ({error}); run: pip install 'agentix[ray]'") from None


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[None]:
    """This process as a part of the cluster at `address` (see `RaySettings`); as it is if it is one already.

    What it starts ends with it, however it ends. Raises ConfigError if there is no cluster.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    if address not in {"auto", "local"}:
        await _reach(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = {"include_dashboard": False} if address == "local" else {}
    try:
        # It may take seconds; and in the main thread Ray would have SIGTERM end the process.
        await asyncio.to_thread(
            ray.init, address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **here
        )
    except Exception as error:  # of many kinds, plain Exception among them
        raise ConfigError(f"cannot join the Ray cluster at {address!r}: {error}") from None
    _take_back_signals()
    try:
        yield
    finally:
        await asyncio.to_thread(ray.shutdown)
        _take_back_signals()


def _take_back_signals() -> None:
    """Have Python hear again the signals that end a program: Ray's core takes them from any thread, to end it on the spot."""
    if threading.current_thread() is threading.main_thread():
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if (handler := signal.getsignal(signum)) is not None:
                signal.signal(signum, handler)
                signal.siginterrupt(signum, False)


async def _reach(address: str) -> None:
    """Raise ConfigError if nobody listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), _REACH_S)
    except (OSError, TimeoutError, ValueError, OverflowError) as error:
        raise ConfigError(f"no Ray cluster at {address!r}: {error or 'it does not answer'}") from None
    writer.close()


class PlacedEngine:
    """An engine that serves on some machine of the cluster. `url` has no path."""

    def __init__(self, engine_id: str, started: Started, actor: Any, group: Any) -> None:
        self.engine_id = engine_id
        self.url = started.url
        self.log_path = started.log_path
        self._actor = actor
        self._group = group

    async def died(self) -> str:
        """Why it is dead, as soon as it is known: Ray tells of actors and machines that are gone within seconds."""
        try:
            return str(await self._actor.died.remote())
        except import_ray().exceptions.RayError as error:
            return f"its actor is gone: {_first_line(error)}"

    async def stop(self) -> None:
        """End it, wherever it has come to, and give back its place. Idempotent."""
        with suppress(import_ray().exceptions.RayError, TimeoutError):
            await asyncio.wait_for(self._actor.stop.remote(), _STOP_S)
        await asyncio.to_thread(_give_back, self._actor, self._group)


class RayCluster:
    """Places for engines on the cluster that this process is connected to.

    Every engine has a placement group of its own, of one bundle (`RaySettings.resources`): all of it on one machine. While
    no machine has room the engine waits for one to get free or to come; Ray's autoscaler sees what it waits for.
    """

    def __init__(self, settings: RaySettings, options: EngineOptions, *, key: str, timeout_s: float) -> None:
        self._settings = settings
        self._options = options
        self._key = key
        self._timeout_s = timeout_s

    async def start(self, number: int) -> PlacedEngine:
        """Engine-`number`, once it is healthy. Raises RayEngineError; nothing is left of it then, nor after a cancellation."""
        engine_id = f"engine-{number}"
        # Ray's own calls are answered by its head, and wait for it: not in the gateway's event loop.
        placing = asyncio.create_task(asyncio.to_thread(self._place, engine_id))
        try:
            actor, group = await asyncio.shield(placing)
            start = actor.start.remote(self._options, number=number, key=self._key, timeout_s=self._timeout_s)
            started: Started = await asyncio.wait_for(start, self._timeout_s)
            if started.error:
                raise RayEngineError(engine_id, started.error)
        except BaseException as error:
            await asyncio.shield(_take_back(placing))
            if isinstance(error, TimeoutError):
                room = self._settings.resources()
                raise RayEngineError(engine_id, f"not up after {self._timeout_s:.0f} s; is {room} free on a machine?") from None
            if isinstance(error, import_ray().exceptions.RayError):
                raise RayEngineError(engine_id, f"its actor is gone: {_first_line(error)}") from None
            raise
        return PlacedEngine(engine_id, started, actor, group)

    def _place(self, engine_id: str) -> tuple[Any, Any]:
        ray = import_ray()
        resources = self._settings.resources()
        name = f"{NAMESPACE}-{engine_id}-{secrets.token_hex(4)}"  # no two may have one name, those of other gateways included
        group = ray.util.placement_group([resources], strategy="STRICT_PACK", name=name)
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(placement_group=group)
        actor = ray.remote(RayEngine).options(
            num_cpus=resources["CPU"],
            num_gpus=resources.get("GPU", 0),
            scheduling_strategy=strategy,
            max_restarts=0,
        )
        return actor.remote(), group


async def _take_back(placing: asyncio.Task[tuple[Any, Any]]) -> None:
    """What has been placed, or still is being placed, is given back."""
    with suppress(import_ray().exceptions.RayError):
        actor, group = await placing
        await asyncio.to_thread(_give_back, actor, group)


def _give_back(actor: Any, group: Any) -> None:
    """Kill the actor, and its engine with it; free what it had."""
    ray = import_ray()
    with suppress(ray.exceptions.RayError):
        ray.kill(actor)
        ray.util.remove_placement_group(group)


def _first_line(error: BaseException) -> str:
    """Ray's errors go on for screens."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
