"""Arms by name: how the engine of each is started, and what its clients send beyond what all of them do.

| name                | engine                                                                     |
|---------------------|----------------------------------------------------------------------------|
| `stock-fcfs`        | vLLM as it is: first come, first served                                     |
| `stock-priority`    | vLLM with `--scheduling-policy priority`; see `Arm.sends_priority`           |
| `POLICY`            | the plug-in with that policy; running calls are parked for better ones      |
| `POLICY-order`      | the plug-in; only waiting calls are ordered, running ones stay              |
| `POLICY-recompute`  | the plug-in; running calls that stand aside lose their KV and compute again |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.core.config import SchedulerConfig
from agentix.core.errors import unknown_name
from agentix.core.policies import POLICIES, make_policy, refuse_clairvoyant
from agentix.engine.settings import PluginSettings

_PREEMPTION_OF_SUFFIX = {"-order": "none", "-recompute": "recompute"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of scheduling.

    settings        of the plug-in; None: stock vLLM
    vllm_args       for vLLM, beyond those that all arms get
    sends_priority  each call carries `priority`: how many calls of its program have been answered before it was sent (lower
                    goes first). It is the best that a client can do on its own: stock vLLM orders waiting calls by it,
                    and takes a running call's place only when KV blocks run out
    """

    name: str
    settings: Mapping[str, Any] | None = None
    vllm_args: tuple[str, ...] = ()
    sends_priority: bool = False


STOCK_FCFS = Arm(name="stock-fcfs")
_STOCK = {
    arm.name: arm
    for arm in (
        STOCK_FCFS,
        Arm(name="stock-priority", vllm_args=("--scheduling-policy", "priority"), sends_priority=True),
    )
}


def arm_names() -> list[str]:
    """What can be compared, for help and errors."""
    policies = [name for name in POLICIES.names if not make_policy(SchedulerConfig(policy=name)).clairvoyant]
    return [*_STOCK, *policies, "POLICY-order", "POLICY-recompute"]


def find_arm(name: str, settings: Mapping[str, Any]) -> Arm:
    """The arm of that name; `settings` are the plug-in's, shared by all of its arms. Raises ConfigError.

    A policy of one's own, `module:Class`, is an arm too.
    """
    if name in _STOCK:
        return _STOCK[name]
    policy, preemption = name, "park"
    for suffix, kind in _PREEMPTION_OF_SUFFIX.items():
        if name.endswith(suffix):
            policy, preemption = name.removesuffix(suffix), kind
    if policy not in POLICIES.names and ":" not in policy:
        raise unknown_name("arm", name, arm_names())
    arm = Arm(name=name, settings={**settings, "policy": policy, "preemption": preemption})
    refuse_clairvoyant(make_policy(PluginSettings.from_mapping(arm.settings or {}).scheduler))
    return arm
