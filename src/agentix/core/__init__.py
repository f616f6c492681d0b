"""The core: decides, and does nothing else. Standard library only; no I/O, no clock, no global state.

Shells (gateway, engine plug-in, simulator) translate their world into `events`, apply them to a `ProcessTable` and a
`Scheduler`, ask for a decision, and carry it out.
"""

from __future__ import annotations

from agentix.core.balancers import BALANCERS, EngineView, LoadBalancer, Route, make_balancer
from agentix.core.budget import BatchBudget, Slots
from agentix.core.config import SchedulerConfig
from agentix.core.errors import AgentixError, ConfigError, InvalidTransition, UnknownCall, UnknownProgram
from agentix.core.policies import POLICIES, MultiLevelPolicy, SchedulingPolicy, make_policy
from agentix.core.process_table import ProcessTable
from agentix.core.program import CallRow, ProgramRow
from agentix.core.scheduler import Scheduler

__all__ = [
    "BALANCERS",
    "POLICIES",
    "AgentixError",
    "BatchBudget",
    "CallRow",
    "ConfigError",
    "EngineView",
    "InvalidTransition",
    "LoadBalancer",
    "MultiLevelPolicy",
    "ProcessTable",
    "ProgramRow",
    "Route",
    "Scheduler",
    "SchedulerConfig",
    "SchedulingPolicy",
    "Slots",
    "UnknownCall",
    "UnknownProgram",
    "make_balancer",
    "make_policy",
]
