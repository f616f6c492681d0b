"""Load balancers by name. A new one is a small file here, or a user's class by dotted path."""

from __future__ import annotations

import inspect

from agentix.core.balancers.base import EngineView, LoadBalancer, Route
from agentix.core.balancers.least_used import LeastUsed
from agentix.core.balancers.power_of_two import PowerOfTwo
from agentix.core.balancers.prefix_aware import PrefixAware
from agentix.core.balancers.program_affinity import ProgramAffinity
from agentix.core.balancers.round_robin import RoundRobin
from agentix.core.balancers.session_hash import SessionHash
from agentix.core.errors import ConfigError, unknown_name
from agentix.core.registry import Registry

BALANCERS: Registry[LoadBalancer] = Registry("balancer")
BALANCERS.register("round_robin", RoundRobin)
BALANCERS.register("least_used", LeastUsed)
BALANCERS.register("power_of_two", PowerOfTwo)
BALANCERS.register("prefix_aware", PrefixAware)
BALANCERS.register("program_affinity", ProgramAffinity)
BALANCERS.register("session_hash", SessionHash)


def make_balancer(spec: str) -> LoadBalancer:
    """The balancer that `spec` names, for example `least_used`, `program_affinity+long_prompt_tokens=512` or `module:Class`.

    Options are the arguments of its class and must be numbers. Raises ConfigError, which lists the names.
    """
    name, *options = spec.split("+")
    factory = BALANCERS.resolve(name)
    known = [*inspect.signature(factory).parameters] if options else []
    values: dict[str, float] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key not in known:
            raise unknown_name(f"option of balancer {name!r}", key, known)
        try:
            values[key] = float(value)
        except ValueError:
            raise ConfigError(f"balancer {name!r}: {key} must be a number, not {value!r}") from None
    return factory(**values)


__all__ = ["BALANCERS", "EngineView", "LoadBalancer", "Route", "make_balancer"]
