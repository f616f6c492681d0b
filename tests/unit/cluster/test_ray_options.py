"""What people may say about engines on Ray, on the command line and to Ray Serve."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from agentix.cli.serve import _ray
from agentix.cluster import ray_serve
from agentix.cluster.ray_cluster import import_ray
from agentix.cluster.ray_scaling import ScalingSettings
from agentix.cluster.ray_serve import Gateway, ServeArguments, make_gateway
from agentix.cluster.ray_settings import RaySettings
from agentix.core import ConfigError
from agentix.gateway import EngineTarget
from agentix.serve import ServeOptions
from agentix.wire import KEY_VARIABLE
from fake_engine import FakeEngine, served
from gateway_system import CHAT


def test_the_command_line_s_options_are_settings() -> None:
    assert _ray("auto", None, None, None, None, None) == RaySettings()
    assert _ray("head:6379", 2, None, 4, 8.0, 16.0) == RaySettings(
        address="head:6379",
        scaling=ScalingSettings(min_engines=2, max_engines=2),
        tensor_parallel=4,
        gpus_per_engine=8,
        cpus_per_engine=16,
    )
    assert _ray(None, None, None, None, None, None) is None
    with pytest.raises(ConfigError, match="give --ray ADDRESS"):
        _ray(None, None, 3, None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine_urls": ("http://127.0.0.1:9",)}, "give a MODEL"),
        ({"model": "m", "num_engines": 2}, "--min-engines and --max-engines"),
        ({"model": "m", "decision_log": Path("logs")}, "decision logs are for engines on this machine"),
        ({"model": "m", "vllm_args": ("--api-key=secret",)}, "leave --api-key to Agentix"),
    ],
)
def test_what_does_not_go_with_ray_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServeOptions(ray=RaySettings(), **options)


def test_without_ray_there_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ray(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", no_ray)
    with pytest.raises(ConfigError, match=r"pip install 'agentix\[ray\]'"):
        import_ray()


def test_ray_serve_s_arguments_are_the_same_settings() -> None:
    read = ServeArguments.read({"model": "m", "min_engines": 2, "tensor_parallel": "4", "policy": "fcfs"})
    assert read.settings() == RaySettings(scaling=ScalingSettings(min_engines=2, max_engines=2), tensor_parallel=4)
    options = read.engine_options()
    assert (options.model, options.served_model_name) == ("m", "m")
    assert options.scheduler is not None
    assert options.scheduler["policy"] == "fcfs"


def test_a_configuration_file_may_say_true_and_numbers() -> None:
    typed = {"model": "m", "insecure": "true", "max_engines": "2", "gpus_per_engine": "0.5"}
    assert ServeArguments.read(
        {"model": "m", "insecure": True, "max_engines": 2, "gpus_per_engine": 0.5}
    ) == ServeArguments.read(typed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "model=NAME"),
        ({"model": "m", "engines": "2"}, "unknown argument 'engines'; known: balancer,"),
        ({"model": "m", "min_engines": "1.5"}, "min_engines must be a whole number, not '1.5'"),
        ({"model": "m", "gpus_per_engine": "many"}, "gpus_per_engine must be a number, not 'many'"),
        ({"model": "m", "policy": "none"}, "unknown policy 'none'"),
        ({"model": "m", "balancer": "none"}, "unknown balancer 'none'"),
        ({"model": "m", "insecure": "yes"}, "insecure must be true or false, not 'yes'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServeArguments.read(arguments)


@asynccontextmanager
async def one_engine(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
    """What `engines_on_ray` gives, with an engine of the test's own and nobody to supervise it."""
    async with served(FakeEngine().app) as url:
        target = EngineTarget(engine_id="engine-0", url=url)
        yield SimpleNamespace(targets=(target,), beside=nullcontext, check=check)


def check() -> None:
    """What a supervisor says whose supervision has ended."""
    raise RuntimeError("ended")


async def test_the_application_is_a_gateway_that_asks_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_serve, "engines_on_ray", one_engine)
    monkeypatch.setenv(KEY_VARIABLE, "k" * 40)
    async with (
        served(make_gateway(ServeArguments.read({"model": "fake"}))) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        key = {"authorization": f"Bearer {'k' * 40}"}
        assert (await client.post("/v1/chat/completions", json=CHAT, headers=key)).status_code == 200
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 401


async def test_a_replica_whose_engines_nobody_supervises_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_serve, "engines_on_ray", one_engine)
    replica = Gateway()
    replica.app = make_gateway(ServeArguments.read({"model": "fake", "insecure": "true"}))
    async with replica.app.router.lifespan_context(replica.app):
        with pytest.raises(RuntimeError, match="ended"):
            replica.check_health()


async def test_the_application_does_not_begin_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_serve, "engines_on_ray", one_engine)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    gateway = make_gateway(ServeArguments.read({"model": "fake"}))
    with pytest.raises(ConfigError, match="who may call"):
        async with gateway.router.lifespan_context(gateway):
            pass
