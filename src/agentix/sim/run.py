"""The same programs and arrivals under several policies, on the same modelled engines."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import agentix
from agentix.core.balancers import make_balancer
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import make_policy
from agentix.cost import Roofline, device_card, kv_capacity_tokens, model_card
from agentix.metrics import Summary, summarise
from agentix.sim.engine import EngineConfig, EngineCounts
from agentix.sim.simulation import Simulation
from agentix.workload import Program, load_programs
from agentix.workload.draw import draw_programs
from agentix.workload.generate import generate_programs


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """What to simulate.

    workload / generate  a trace file, or a kind of synthetic programs; one of the two
    policies             compared on the same programs, arrivals and engines
    device, model        cards of the cost model; they also say how much KV cache there is
    engine               everything else about an engine; its scheduler is replaced by each policy, its number of blocks
                         by what the cards say unless `kv_tokens` gives it
    """

    workload: Path | None = None
    generate: str | None = None
    num_programs: int = 200
    rate_per_s: float = 1.0
    seed: int = 0
    policies: tuple[str, ...] = ("fcfs", "plas")
    quanta_s: tuple[float, ...] = SchedulerConfig().quanta_s
    starvation_ratio: float | None = SchedulerConfig().starvation_ratio
    device: str = "a100-80gb"
    model: str = "llama-3.1-8b"
    num_engines: int = 1
    balancer: str = "program_affinity"
    kv_tokens: int | None = None
    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        if (self.workload is None) == (self.generate is None):
            raise ConfigError("give either a workload file or a kind of programs to generate")
        if self.num_programs < 1 or self.num_engines < 1 or not self.rate_per_s > 0:
            raise ConfigError("programs and engines must be at least 1, the rate positive")
        if self.kv_tokens is not None and self.kv_tokens < self.engine.block_size:
            raise ConfigError(f"kv_tokens must be at least one block of {self.engine.block_size}, not {self.kv_tokens}")
        make_balancer(self.balancer)
        for policy in self.policies:
            make_policy(self.scheduler(policy))

    def scheduler(self, policy: str) -> SchedulerConfig:
        """The core's settings for one of the policies."""
        return SchedulerConfig(policy=policy, quanta_s=self.quanta_s, starvation_ratio=self.starvation_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """What one policy made of it. `counts` are summed over the engines."""

    policy: str
    summary: Summary
    counts: EngineCounts

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the prefix cache when their call was first admitted."""
        return self.counts.cached_tokens / self.counts.prompt_tokens if self.counts.prompt_tokens else None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"policy": self.policy, **asdict(self.summary), "engines": asdict(self.counts), "hit_rate": self.hit_rate}


def run_policies(config: SimulationConfig, *, on_progress: Callable[[str], None]) -> Iterator[PolicyResult]:
    """One result per policy, each as soon as it is there. Raises AgentixError for bad input, named."""
    programs = _programs(config)
    drawn = draw_programs(programs, num_programs=config.num_programs, rate_per_s=config.rate_per_s, seed=config.seed)
    device, model = device_card(config.device), model_card(config.model)
    kv_tokens = config.kv_tokens if config.kv_tokens is not None else kv_capacity_tokens(device, model)
    engine = replace(config.engine, num_blocks=kv_tokens // config.engine.block_size)
    for policy in config.policies:
        on_progress(policy)
        simulation = Simulation(
            [program for program, _ in drawn],
            [arrival_s for _, arrival_s in drawn],
            engine=replace(engine, scheduler=config.scheduler(policy)),
            cost=Roofline(device, model),
            balancer=make_balancer(config.balancer),
            num_engines=config.num_engines,
        )
        records = simulation.run()
        yield PolicyResult(
            policy=policy,
            summary=summarise(records),
            counts=_sum([engine.counts for engine in simulation.engines.values()]),
        )


def describe(config: SimulationConfig) -> dict[str, Any]:
    """The configuration for a result file: everything that decides the outcome, and no path of this machine."""
    settings = asdict(config)
    settings["workload"] = config.workload.name if config.workload is not None else None
    settings["rate_per_s"] = config.rate_per_s if math.isfinite(config.rate_per_s) else None
    del settings["engine"]["scheduler"], settings["engine"]["num_blocks"]
    return {"agentix_version": agentix.__version__, **settings}


def _programs(config: SimulationConfig) -> tuple[Program, ...] | list[Program]:
    if config.workload is not None:
        programs = load_programs(config.workload)
        if not programs:
            raise ConfigError(f"{config.workload}: the workload holds no programs")
        return programs
    rng = random.Random(f"{config.seed}/programs")  # noqa: S311 - not for secrets
    return generate_programs(config.generate or "", rng, num_programs=config.num_programs)


def _sum(counts: list[EngineCounts]) -> EngineCounts:
    total = EngineCounts()
    for each in counts:
        for name, value in asdict(each).items():
            setattr(total, name, getattr(total, name) + value)
    return total
