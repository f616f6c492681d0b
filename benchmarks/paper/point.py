"""One run of the evaluation, and what is kept of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean
from typing import TypeVar

from agentix.core.balancers import make_balancer
from agentix.cost import Roofline, Step, StepCostModel, device_card, kv_capacity_tokens, model_card, swap_s
from agentix.metrics import (
    CallRecord,
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
from agentix.offline.replay import expected_work
from agentix.sim.config import EngineConfig, EngineCounts
from agentix.sim.simulation import Simulation
from agentix.workload.draw import draw_programs
from benchmarks.paper.observer import Observer
from benchmarks.paper.setup import DEVICE, MODEL, System, make_programs

R = TypeVar("R", CallRecord, ProgramRecord)

IDENTICAL_STEPS = "identical steps"  # in place of a model: every step takes the same time, and memory never runs out
IDENTICAL_STEP_S = 0.02
_ENDLESS_BLOCKS = 100_000

# Upper bounds of lengths in output tokens, by which waiting is broken down; the last bin has no bound.
CALL_BINS = (32, 64, 128, 256, 512, math.inf)
PROGRAM_BINS = (300, 1000, 3000, 10_000, math.inf)
_NUM_INTERVALS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run: which system, on what, under what load. `rate_per_s` is programs per second; inf: all at once.

    At most `max_programs` are under way at once, None: all. `longest_first`: those that are to be more work come first.
    """

    system: System
    workload: str
    rate_per_s: float
    num_programs: int
    seed: int = 0
    model: str = MODEL
    num_engines: int = 1
    balancer: str = "program_affinity+min_gain=inf"  # the paper's own
    max_programs: int | None = None
    longest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is kept of a run.

    token_latency, jct       of programs: s/token, s
    latency_by_kind          mean token latency of the programs of each kind
    capacity_per_s           programs per second if all tokens came out as fast as in the second half of the arrivals
    wait, execute, swap      shares of programs' time in engines, mean over programs
    ratio_by_call, _program  mean wait-to-execution ratio by length, in the bins of CALL_BINS and PROGRAM_BINS
    steady_batch             calls in a step, mean over the time from a third of the arrivals to the last one
    batch_series             the same over the whole run: (s, calls)
    peak_kv_tokens           most KV that calls under way had at one time, on devices and host; parts that calls share
                             count for each of them. peak_host_tokens: on the host alone
    cpu_s                    what it took this machine to simulate it: the only thing that is not the same every time
    """

    token_latency: Distribution
    latency_by_kind: dict[str, float]
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
    cpu_s: float


class FixedStep:
    """Every step takes IDENTICAL_STEP_S, whatever is in it."""

    def step_s(self, step: Step, /) -> float:
        """That time, or 0.0 for an empty step."""
        return 0.0 if step.is_empty else IDENTICAL_STEP_S


def play(point: Point) -> Outcome:
    """Simulate. The same point gives the same outcome."""
    began_s = time.process_time()
    programs = make_programs(point.workload, num_programs=point.num_programs, seed=point.seed)
    drawn = draw_programs(programs, num_programs=point.num_programs, rate_per_s=point.rate_per_s, seed=point.seed)
    arrivals_s = [arrival_s for _, arrival_s in drawn]
    todo = [program for program, _ in drawn]
    if point.longest_first:
        todo.sort(key=expected_work, reverse=True)
    engine, cost = _machine(point)
    observer = Observer()
    simulation = Simulation(
        todo,
        arrivals_s,
        engine=engine,
        cost=cost,
        swap_cost=partial(swap_s, device_card(DEVICE), model_card(MODEL if point.model == IDENTICAL_STEPS else point.model)),
        balancer=make_balancer(point.balancer),
        num_engines=point.num_engines,
        max_programs=point.max_programs,
        on_decision=observer.record,
    )
    observer.watch(simulation.engines)
    records = simulation.run()
    counts = _sum(engine.counts for engine in simulation.engines.values())
    return replace(_outcome(records, arrivals_s, counts, observer), cpu_s=time.process_time() - began_s)


def _machine(point: Point) -> tuple[EngineConfig, StepCostModel]:
    if point.model == IDENTICAL_STEPS:
        return replace(point.system.engine, num_blocks=_ENDLESS_BLOCKS), FixedStep()
    device, model = device_card(DEVICE), model_card(point.model)
    num_blocks = kv_capacity_tokens(device, model) // point.system.engine.block_size
    return replace(point.system.engine, num_blocks=num_blocks), Roofline(device, model)


def _outcome(
    records: Sequence[ProgramRecord], arrivals_s: Sequence[float], counts: EngineCounts, observer: Observer
) -> Outcome:
    summary = summarise(records)
    makespan_s = summary.makespan_s or 0.0
    calls = [call for record in records for call in record.calls]
    return Outcome(
        token_latency=summary.distributions["program_token_latency_s"],
        latency_by_kind={
            kind: _mean(program_token_latency_s, [record for record in records if record.workload == kind])
            for kind in sorted({record.workload for record in records})
        },
        jct=summary.distributions["jct_s"],
        makespan_s=makespan_s,
        capacity_per_s=_capacity_per_s(records, calls, arrivals_s[-1]),
        hit_rate=prefix_hit_rate(records) or 0.0,
        mean_batch=mean_batch_size(records, busy_s=counts.busy_s) or 0.0,
        wait=_mean(wait_share, records),
        execute=_mean(execute_share, records),
        swap=_mean(swap_share, records),
        ratio_by_call=_by_length(wait_to_execution, calls, [call.output_tokens or 0 for call in calls], CALL_BINS),
        ratio_by_program=_by_length(program_wait_to_execution, records, list(map(_output_tokens, records)), PROGRAM_BINS),
        steady_batch=observer.mean_batch(arrivals_s[len(arrivals_s) // 3], arrivals_s[-1]),
        batch_series=observer.batch_series(makespan_s, _NUM_INTERVALS),
        peak_kv_tokens=observer.peak_kv_tokens,
        peak_host_tokens=observer.peak_host_tokens,
        counts=counts,
        cpu_s=0.0,
    )


def _capacity_per_s(records: Sequence[ProgramRecord], calls: Sequence[CallRecord], last_arrival_s: float) -> float:
    """Output tokens of calls that ended in the second half of the arrivals, per second, over the tokens of a program."""
    begin_s = last_arrival_s / 2
    if begin_s == 0:
        return 0.0
    num_tokens = sum(call.output_tokens or 0 for call in calls if begin_s <= (call.end_s or 0.0) < last_arrival_s)
    return num_tokens / begin_s / (sum(map(_output_tokens, records)) / len(records))


def _output_tokens(record: ProgramRecord) -> int:
    return sum(call.output_tokens or 0 for call in record.calls)


def _mean(metric: Callable[[R], float | None], records: Iterable[R]) -> float:
    return fmean(value for record in records if (value := metric(record)) is not None)


def _by_length(
    metric: Callable[[R], float | None], records: Iterable[R], lengths: Sequence[int], bounds: Sequence[float]
) -> list[float | None]:
    """The metric's mean over the records in each bin of lengths (above the bound before, up to its own); None: no record."""
    bins: list[list[float]] = [[] for _ in bounds]
    for record, length in zip(records, lengths, strict=True):
        value = metric(record)
        if value is not None:
            bins[next(i for i, bound in enumerate(bounds) if length <= bound)].append(value)
    return [fmean(values) if values else None for values in bins]


def _sum(counts: Iterable[EngineCounts]) -> EngineCounts:
    total = EngineCounts()
    for each in counts:
        for name, value in asdict(each).items():
            setattr(total, name, getattr(total, name) + value)
    return total
