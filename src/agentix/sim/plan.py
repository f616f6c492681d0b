"""What to simulate: settings, checked at once, and the cases that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from agentix.core.balancers import make_balancer
from agentix.core.errors import ConfigError, unknown_name
from agentix.core.policies import make_policy
from agentix.cost import CalibratedCard, device_card, kv_capacity_tokens, model_card
from agentix.sim.config import EngineConfig
from agentix.sim.scenarios import find_scenario
from agentix.workload.generate import GENERATORS

ARRIVALS = ("poisson", "gamma", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: a policy and a balancer on the programs and arrivals that rate and seed give (rate None: not drawn)."""

    policy: str
    balancer: str
    rate_per_s: float | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """A comparison: every policy with every balancer, rate and seed. Raises ConfigError for what cannot be honoured.

    workload      a trace file, a kind of synthetic programs, or `module:Class` of one's own generator
    scenario      instead of a workload: a worked example, which brings its engine and its step time with it
    arrivals      "poisson"; "gamma": bursts, the gaps' coefficient of variation is 3; "trace": the recorded times
    rates_per_s   programs per second, inf: all at once; none with recorded arrivals or a scenario
    device, model cards of the cost model; they also say how much KV cache there is, unless `kv_tokens` does
    card          of a measured engine, instead of device and model: step times, KV cache and overhead of a call
    engine        everything else about an engine; the policy in its scheduler is replaced by each of `policies`
    """

    workload: str | None = None
    scenario: str | None = None
    num_programs: int = 200
    arrivals: str = "poisson"
    rates_per_s: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    policies: tuple[str, ...] = ("fcfs", "plas")
    balancers: tuple[str, ...] = ("program_affinity",)
    device: str = "a100-80gb"
    model: str = "llama-3.1-8b"
    card: CalibratedCard | None = None
    num_engines: int = 1
    kv_tokens: int | None = None
    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        if (self.workload is None) == (self.scenario is None):
            raise ConfigError("give either a workload or a scenario")
        for name in ("num_programs", "num_engines"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        self._check_arrivals()
        for kind in ("policies", "balancers", "rates_per_s", "seeds"):
            _check_list(kind, getattr(self, kind))
        for name in self.balancers:
            make_balancer(name)
        for policy in self.policies:
            make_policy(replace(self.engine.scheduler, policy=policy))
        if self.scenario is not None:
            find_scenario(self.scenario)
        elif self.workload is not None and not is_generated(self.workload) and not Path(self.workload).exists():
            names = ", ".join(GENERATORS.names)
            raise ConfigError(f"unknown workload {self.workload!r}: no such file, and not a kind of programs; known: {names}")
        if self.kv_tokens is not None and self.kv_tokens < self.engine.block_size:
            raise ConfigError(f"kv_tokens must be at least one block of {self.engine.block_size}, not {self.kv_tokens}")
        self.num_blocks()

    def _check_arrivals(self) -> None:
        if self.arrivals not in ARRIVALS:
            raise unknown_name("arrivals", self.arrivals, ARRIVALS)
        if (self.arrivals == "trace" or self.scenario is not None) == bool(self.rates_per_s):
            raise ConfigError("a rate is for arrivals that are drawn: not for recorded ones, nor for a scenario")
        for rate_per_s in self.rates_per_s:
            if not rate_per_s > 0:
                raise ConfigError(f"rate must be above 0 programs per second (inf: all at once), not {rate_per_s}")

    def num_blocks(self) -> int:
        """KV blocks of an engine."""
        if self.scenario is not None:
            return self.engine.num_blocks
        if self.kv_tokens is not None:
            kv_tokens = self.kv_tokens
        elif self.card is not None:
            kv_tokens = self.card.engine.kv_tokens
        else:
            kv_tokens = kv_capacity_tokens(device_card(self.device), model_card(self.model))
        return kv_tokens // self.engine.block_size

    def cases(self) -> list[Case]:
        """Every case, in the order in which results are given: policy by policy, in each balancer, rate, seed."""
        rates: Sequence[float | None] = self.rates_per_s or (None,)
        return [
            Case(policy=policy, balancer=balancer, rate_per_s=rate_per_s, seed=seed)
            for policy, balancer, rate_per_s, seed in product(self.policies, self.balancers, rates, self.seeds)
        ]

    def document(self) -> dict[str, Any]:
        """For a result file: everything that decides the outcome, and no path of this machine."""
        settings = asdict(self)
        settings["workload"] = None if self.workload is None else Path(self.workload).name
        settings["rates_per_s"] = [json_rate(rate_per_s) for rate_per_s in self.rates_per_s]
        settings["engine"]["num_blocks"] = self.num_blocks()
        del settings["engine"]["scheduler"]["policy"], settings["kv_tokens"], settings["card"]
        if self.card is not None:
            settings["card"] = self.card.to_mapping()
            del settings["device"], settings["model"]
        if self.scenario is not None:
            for name in ("workload", "num_programs", "arrivals", "rates_per_s", "seeds", "device", "model"):
                del settings[name]
        return settings


def is_generated(workload: str) -> bool:
    """Whether the name stands for synthetic programs; `./chat` is a file of that name."""
    return workload in GENERATORS.names or (":" in workload and not Path(workload).exists())


def json_rate(rate_per_s: float | None) -> float | None:
    """The rate for JSON, which has no infinity."""
    return rate_per_s if rate_per_s is not None and math.isfinite(rate_per_s) else None


def _check_list(kind: str, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ConfigError(f"{kind} holds {value!r} twice")
    if not values and kind != "rates_per_s":
        raise ConfigError(f"{kind} must name at least one")
