"""What engines on Ray take, and what vLLM is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.cluster import ray_settings
from agentix.cluster.ray_settings import RaySettings
from agentix.core import ConfigError


@pytest.fixture(params=[False, True], ids=["gpus", "cpus"])
def cpu_build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(ray_settings, "is_cpu_build", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize(
    ("settings", "with_gpus", "on_cpus"),
    [
        ({}, {"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0}),
        ({"tensor_parallel": 4}, {"CPU": 1.0, "GPU": 4.0}, {"CPU": 1.0}),
        ({"gpus_per_engine": 0, "cpus_per_engine": 8}, {"CPU": 8.0}, {"CPU": 8.0}),
        ({"gpus_per_engine": 0.5}, {"CPU": 1.0, "GPU": 0.5}, {"CPU": 1.0, "GPU": 0.5}),
        ({"tensor_parallel": 2, "gpus_per_engine": 4}, {"CPU": 1.0, "GPU": 4.0}, {"CPU": 1.0, "GPU": 4.0}),
    ],
)
def test_an_engine_s_place_is_one_bundle(
    settings: dict[str, Any], with_gpus: dict[str, float], on_cpus: dict[str, float], cpu_build: bool
) -> None:
    assert RaySettings(**settings).resources() == (on_cpus if cpu_build else with_gpus)


def test_vllm_is_told_how_the_model_is_split() -> None:
    assert RaySettings().vllm_args() == ()
    assert RaySettings(tensor_parallel=4).vllm_args() == ("--tensor-parallel-size", "4")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"address": ""}, "auto, local or host:port"),
        ({"address": "ray://head:10001"}, "runs on one of its machines; not 'ray://head:10001'"),
        ({"tensor_parallel": 0}, "at least 1 GPU, not 0"),
        ({"gpus_per_engine": 1.5}, "not 1.5"),
        ({"gpus_per_engine": -1}, "not -1"),
        ({"gpus_per_engine": 2, "tensor_parallel": 4}, "split over 4 GPUs needs as many, not 2"),
        ({"gpus_per_engine": 0.5, "tensor_parallel": 2}, "split over 2 GPUs needs as many, not 0.5"),
        ({"cpus_per_engine": 0}, "more than 0 CPUs, not 0"),
        ({"drain_s": -1}, "0 or more seconds to finish, not -1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RaySettings(**settings)
