"""One run of the evaluation, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean

from agentix.core.balancers import make_balancer
from agentix.cost import Roofline, Step, StepCostModel, device_card, kv_capacity_tokens, model_card, swap_s
from agentix.metrics import (
    Distribution,
    ProgramRecord,
    execute_share,
    mean_batch_size,
    prefix_hit_rate,
    program_token_latency_s,
    program_wait_to_execution,
    summarise,
    swap_share,
    wait_share,
    wait_to_execution,
)
from agentix.sim.config import EngineCounts
from agentix.sim.simulation import Simulation
from agentix.workload.draw import draw_programs
from benchmarks.paper.observer import Observer
from benchmarks.paper.setup import DEVICE, MODEL, System, make_programs

IDENTICAL_STEPS = "identical steps"  # in place of a model: every step takes the same time, and memory never runs out
IDENTICAL_STEP_S = 0.02
_ENDLESS_BLOCKS = 200_000

# Upper bounds of lengths in output tokens, by which waiting is broken down; the last bin has no bound.
CALL_BINS = (32, 64, 128, 256, 512)
PROGRAM_BINS = (250, 1000, 4000, 16_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run: which system, on what, under what load. `rate_per_s` is programs per second; inf: all at once."""

    system: System
    workload: str
    rate_per_s: float
    num_programs: int
    seed: int = 0
    model: str = MODEL
    num_engines: int = 1
    balancer: str = "program_affinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is kept of a run.

    token_latency, jct       of programs: s/token, s
    token_latency_by_kind    mean over the programs of each kind
    capacity_per_s           programs per second at the rate at which tokens came out in the middle half of the run
    wait, execute, swap      shares of programs' time in the engine, mean over programs
    ratio_by_call, _program  mean wait-to-execution ratio by length, in the bins of CALL_BINS and PROGRAM_BINS
    steady_batch             calls in a step, mean over the time from a third of the arrivals to the last one
    batch_series             the same over time: (s, calls), mean over each of equal intervals
    peak_kv_tokens           most KV of started calls at one time, on the devices and on the host, shared parts counted
                             for each call; peak_host_tokens: on the host alone
    """

    token_latency: Distribution
    token_latency_by_kind: dict[str, float]
    jct: Distribution
    makespan_s: float
    capacity_per_s: float
    hit_rate: float
    mean_batch: float
    wait: float
    execute: float
    swap: float
    ratio_by_call: list[float | None]
    ratio_by_program: list[float | None]
    steady_batch: float
    batch_series: list[tuple[float, float]]
    peak_kv_tokens: int
    peak_host_tokens: int
    counts: EngineCounts


class FixedStep:
    """Every step takes the same time, whatever is in it."""

    def step_s(self, step: Step, /) -> float:
        """IDENTICAL_STEP_S, or 0.0 for an empty step."""
        return 0.0 if step.is_empty else IDENTICAL_STEP_S


def play(point: Point) -> Outcome:
    """Simulate; the same point gives the same outcome."""
    programs = make_programs(point.workload, num_programs=point.num_programs, seed=point.seed)
    drawn = draw_programs(programs, num_programs=point.num_programs, rate_per_s=point.rate_per_s, seed=point.seed)
    observer = Observer()
    device = device_card(DEVICE)
    engine, cost, swap_cost = point.system.engine, FixedStep(), None
    if point.model == IDENTICAL_STEPS:
        engine = replace(engine, num_blocks=_ENDLESS_BLOCKS)
    model = model_card(MODEL)
    simulation = Simulation(
        [program for program, _ in drawn],
        [arrival_s for _, arrival_s in drawn],
        engine=engine,
        cost=cost,
        swap_cost=partial(swap_s, device, model),
        balancer=make_balancer(point.balancer),
        num_engines=point.num_engines,
        on_decision=observer.record,
    )
    observer.watch(simulation.engines)
    return None
