"""Load balancers by name. A new one is a small file here, or a user's class by dotted path."""

from __future__ import annotations

from agentix.core.balancers.base import EngineView, LoadBalancer, Route
from agentix.core.balancers.least_used import LeastUsed
from agentix.core.balancers.program_affinity import ProgramAffinity
from agentix.core.balancers.round_robin import RoundRobin
from agentix.core.registry import Registry

BALANCERS: Registry[LoadBalancer] = Registry("balancer")
BALANCERS.register("round_robin", RoundRobin)
BALANCERS.register("least_used", LeastUsed)
BALANCERS.register("program_affinity", ProgramAffinity)


def make_balancer(name: str) -> LoadBalancer:
    """The balancer of that name or dotted path. Raises ConfigError, which lists the names."""
    return BALANCERS.resolve(name)()


__all__ = ["BALANCERS", "EngineView", "LoadBalancer", "Route", "make_balancer"]
