"""First come, first served: calls in order of arrival, never preempted. What engines do by default."""

from __future__ import annotations

from agentix.core.policies.base import SchedulingPolicy


class FCFS(SchedulingPolicy):
    """One level without a quantum, in order of arrival of the calls; programs do not matter."""

    ignores_programs = True
