"""Engines on a Ray cluster: how many, and what each of them takes. Frozen, built at the edge; Ray itself is not imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agentix.cluster.ray_scaling import ScalingSettings
from agentix.core.errors import ConfigError
from agentix.engine.command import is_cpu_build


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """Where engines run, and what an engine takes there.

    address          "auto": the cluster that this machine belongs to; "local": one is started on this machine and ends with
                     the gateway; else host:port of a cluster's head
    scaling          how many engines, and when that changes
    tensor_parallel  GPUs that a model is split over (vLLM's --tensor-parallel-size), all of one machine
    gpus_per_engine  GPUs that Ray gives an engine; a part of one is one that engines share. None: one for each part of the
                     model, or none where vLLM is a build for CPUs
    cpus_per_engine  CPUs that Ray keeps for an engine; on CPUs also the threads that it computes with
    drain_s          how long an engine that is to go may finish its calls; those that are left then are broken off
    """

    address: str = "auto"
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
    tensor_parallel: int = 1
    gpus_per_engine: float | None = None
    cpus_per_engine: float = 1.0
    drain_s: float = 600.0

    def __post_init__(self) -> None:
        if not self.address or self.address.startswith("ray://"):
            known = "auto, local or host:port, and the gateway runs on one of its machines"
            raise ConfigError(f"the address of a Ray cluster is {known}; not {self.address!r}")
        if self.tensor_parallel < 1:
            raise ConfigError(f"a model is split over at least 1 GPU, not {self.tensor_parallel}")
        gpus = self.gpus_per_engine
        if gpus is not None and not (gpus >= 0 and (gpus < 1 or gpus == int(gpus))):
            raise ConfigError(f"an engine takes a whole number of GPUs, or a part of one, not {gpus:g}")
        if gpus and gpus < self.tensor_parallel > 1:
            raise ConfigError(f"a model that is split over {self.tensor_parallel} GPUs needs as many, not {gpus:g}")
        if not self.cpus_per_engine > 0:
            raise ConfigError(f"an engine takes more than 0 CPUs, not {self.cpus_per_engine:g}")
        if not self.drain_s >= 0:
            raise ConfigError(f"an engine's calls get 0 or more seconds to finish, not {self.drain_s:g}")

    def check(self, *, model: str | None, num_engines: int, decision_log: Path | None, vllm_args: tuple[str, ...]) -> None:
        """Raise ConfigError for what does not go with engines on Ray."""
        if not model:
            raise ConfigError("--ray is for engines that agentix starts itself: give a MODEL")
        if num_engines != 1:
            raise ConfigError("with --ray say how many engines with --min-engines and --max-engines")
        if decision_log is not None:
            raise ConfigError("decision logs are for engines on this machine, not for those on Ray")
        if any(arg.partition("=")[0] == "--api-key" for arg in vllm_args):
            raise ConfigError("engines on Ray get a key of their own; leave --api-key to Agentix")

    def resources(self) -> dict[str, float]:
        """What Ray is asked to keep for one engine, all of it on one machine: the one bundle of its placement group."""
        gpus = self.gpus_per_engine
        if gpus is None:
            gpus = 0 if is_cpu_build() else self.tensor_parallel
        return {"CPU": float(self.cpus_per_engine)} | ({"GPU": float(gpus)} if gpus else {})

    def vllm_args(self) -> tuple[str, ...]:
        """What vLLM is told of it."""
        return ("--tensor-parallel-size", str(self.tensor_parallel)) if self.tensor_parallel > 1 else ()
