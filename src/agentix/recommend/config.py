"""The question: which programs, on what engines, and what is in use now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from agentix.core.balancers import BALANCERS, make_balancer
from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies import POLICIES, make_policy, refuse_clairvoyant
from agentix.cost import CalibratedCard
from agentix.engine.settings import PluginSettings
from agentix.sim.config import EngineConfig, engine_like
from agentix.sim.plan import SimulationConfig

NUM_TRIALS = 2  # variants on which candidates are tried
NUM_REPEATS = 5  # others, on which what is proposed is measured
DEFAULT = SimulationConfig(workload="mixed")
"""What engines are like if nobody says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of serving: policy, balancer, and on how many engines."""

    policy: str
    balancer: str
    num_engines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendConfig:
    """What to ask the simulator. Raises ConfigError for what cannot be honoured.

    trace         a trace file
    rate_per_s    programs per second, Poisson; None: as recorded
    now           what is in use: what candidates are compared with
    policies, balancers  candidates
    num_repeats   variants of the programs' arrivals on which the proposal is measured, beside those on which it is chosen
    device, model, card, kv_tokens, preemption  as of `agentix simulate`; the engine follows the rules of the vLLM plug-in
    """

    trace: Path
    now: Arm
    rate_per_s: float | None = None
    policies: tuple[str, ...] = ()
    balancers: tuple[str, ...] = ()
    num_repeats: int = NUM_REPEATS
    device: str = DEFAULT.device
    model: str = DEFAULT.model
    card: CalibratedCard | None = None
    kv_tokens: int | None = None
    preemption: str = PluginSettings().preemption

    def __post_init__(self) -> None:
        if self.num_repeats < 2:
            raise ConfigError(f"there must be at least 2 repeats, not {self.num_repeats}: one tells nothing of chance")
        if self.balancers and self.now.num_engines == 1:
            raise ConfigError(f"balancers to try ({', '.join(self.balancers)}) need 2 engines or more: one takes every call")
        if not self.trace.is_file():
            raise ConfigError(f"no such trace file: {self.trace}")
        for name in (self.now.policy, *self.policies):
            refuse_clairvoyant(make_policy(SchedulerConfig(policy=name)))
        for name in self.balancers:
            make_balancer(name)
        self.simulation()

    def simulation(self) -> SimulationConfig:
        """One run of what is in use, with the programs as they are in the trace."""
        measured = engine_like(self.card.engine) if self.card is not None else EngineConfig()
        return SimulationConfig(
            workload=str(self.trace),
            arrivals="trace" if self.rate_per_s is None else "poisson",
            rates_per_s=() if self.rate_per_s is None else (self.rate_per_s,),
            policies=(self.now.policy,),
            balancers=(self.now.balancer,),
            device=self.device,
            model=self.model,
            card=self.card,
            num_engines=self.now.num_engines,
            kv_tokens=self.kv_tokens,
            engine=replace(measured, scheduler=PluginSettings().scheduler, preemption=self.preemption),
        )

    def candidates(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Policies and balancers to try, those in use included. One engine needs no balancer."""
        policies = (self.now.policy, *(self.policies or real_policies()))
        balancers = (self.now.balancer, *(self.balancers or tuple(BALANCERS.names))) if self.now.num_engines > 1 else ()
        return tuple(dict.fromkeys(policies)), tuple(dict.fromkeys(balancers or (self.now.balancer,)))


def real_policies() -> tuple[str, ...]:
    """Every policy of the registry that an engine can follow: none that must know the future."""
    return tuple(name for name in POLICIES.names if not make_policy(SchedulerConfig(policy=name)).clairvoyant)
