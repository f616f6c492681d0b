"""Round-robin: first come, first served in slices of one quantum (paper §6, simulation)."""

from __future__ import annotations

from agentix.core.config import SchedulerConfig
from agentix.core.policies.base import SchedulingPolicy


class RoundRobin(SchedulingPolicy):
    """One level; a call that has used up the quantum goes to its tail with a fresh one."""

    ignores_programs = True

    def __init__(self, config: SchedulerConfig) -> None:
        self.quanta_s = config.quanta_s[:1]
