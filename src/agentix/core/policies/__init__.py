"""Scheduling policies by name. A new one is a small file here, or a user's class by dotted path."""

from __future__ import annotations

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.core.policies.atlas import ATLAS, ExactATLAS
from agentix.core.policies.base import MultiLevelPolicy, SchedulingPolicy
from agentix.core.policies.fcfs import FCFS
from agentix.core.policies.gittins import Gittins
from agentix.core.policies.las import LAS
from agentix.core.policies.mlfq import MLFQ
from agentix.core.policies.pause_resume import PauseResume
from agentix.core.policies.plas import PLAS
from agentix.core.policies.program_fcfs import ProgramFCFS
from agentix.core.policies.round_robin import RoundRobin
from agentix.core.policies.srpt import SRPT
from agentix.core.registry import Registry

POLICIES: Registry[SchedulingPolicy] = Registry("policy")
POLICIES.register("fcfs", FCFS)
POLICIES.register("round_robin", RoundRobin)
POLICIES.register("mlfq", MLFQ)
POLICIES.register("plas", PLAS)
POLICIES.register("atlas", ATLAS)
POLICIES.register("atlas_exact", ExactATLAS)
POLICIES.register("srpt", SRPT)
POLICIES.register("gittins", Gittins)
POLICIES.register("las", LAS)
POLICIES.register("program_fcfs", ProgramFCFS)
POLICIES.register("pause_resume", PauseResume)
POLICIES.register("default", Gittins)  # what we recommend, whatever it is called


def make_policy(config: SchedulerConfig) -> SchedulingPolicy:
    """The policy that `config.policy` names. Raises ConfigError, which lists the names."""
    return POLICIES.resolve(config.policy)(config)


def refuse_clairvoyant(policy: SchedulingPolicy) -> SchedulingPolicy:
    """The policy itself; raises ConfigError if no real engine can know what it needs."""
    if policy.clairvoyant:
        raise ConfigError(f"policy {type(policy).__name__} needs knowledge of the future and runs in a simulation alone")
    return policy


__all__ = ["POLICIES", "MultiLevelPolicy", "SchedulingPolicy", "make_policy", "refuse_clairvoyant"]
