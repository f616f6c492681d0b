"""Simulating arms on variants, and the numbers that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentix.recommend.config import Arm
from agentix.recommend.variants import Variants
from agentix.sim.processes import run_cases
from agentix.sim.run import CaseResult

Numbers = Mapping[str, float | None]

JCT, TAIL = "jct_s.mean", "jct_s.p99"
NAMES = (JCT, "jct_s.p95", TAIL, "program_token_latency_s.mean", "makespan_s")
WAIT_SHARE = "wait_share.mean"

OnDone = Callable[[], None]
Outcomes = Mapping[Arm, Sequence[Numbers]]
"""Of each arm its numbers, variant by variant."""


def play(
    variants: Variants,
    numbers: Sequence[int],
    *,
    policies: Sequence[str],
    balancers: Sequence[str],
    num_engines: int,
    num_processes: int,
    on_done: OnDone,
) -> Outcomes:
    """Every policy with every balancer on each of the variants. Raises AgentixError for bad input, named."""
    found: dict[Arm, list[Numbers]] = {}
    for number in numbers:
        simulation = replace(
            variants.simulation(number), policies=tuple(policies), balancers=tuple(balancers), num_engines=num_engines
        )
        for result in run_cases(simulation, num_processes=num_processes, on_done=on_done):
            arm = Arm(policy=result.case.policy, balancer=result.case.balancer, num_engines=num_engines)
            found.setdefault(arm, []).append(_numbers(result))
    return found


def _numbers(result: CaseResult) -> Numbers:
    distributions = {**result.summary.distributions, **result.service.distributions}
    numbers: dict[str, float | None] = {"makespan_s": result.summary.makespan_s}
    for name in (*NAMES, WAIT_SHARE):
        metric, _, statistic = name.partition(".")
        if statistic:
            numbers[name] = getattr(distributions[metric], statistic)
    return numbers
