"""Whole runs: one engine under several policies and loads, and many engines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.simulator_speed.programs import chats, engine_config, play
from benchmarks.simulator_speed.timing import measure

POLICIES = ("fcfs", "plas")
NUM_PROGRAMS = 3000
RATES_PER_S = (4.0, 0.4)  # of an engine: far above what it can serve, and below

NUM_ENGINES = 64
NUM_CLUSTER_CALLS = 100_000

Row = dict[str, Any]


def sharegpt(num_repeats: int, scale: float) -> dict[str, Any]:
    """Every policy at every rate, on one engine."""
    num_programs = _scaled(NUM_PROGRAMS, scale)
    rows = [
        _row(policy, rate_per_s, num_programs=num_programs, num_engines=1, num_repeats=num_repeats)
        for rate_per_s in RATES_PER_S
        for policy in POLICIES
    ]
    return {**_workload(), "rows": rows}


def cluster(num_repeats: int, scale: float) -> dict[str, Any]:
    """At least NUM_CLUSTER_CALLS calls on NUM_ENGINES engines behind one balancer, below saturation."""
    programs = chats().programs
    calls_per_program = sum(len(program.calls) for program in programs) / len(programs)
    num_programs = _scaled(1.02 * NUM_CLUSTER_CALLS / calls_per_program, scale)  # a draw may have fewer calls than the mean
    rate_per_s = NUM_ENGINES * RATES_PER_S[-1]
    rows = [_row("plas", rate_per_s, num_programs=num_programs, num_engines=NUM_ENGINES, num_repeats=num_repeats)]
    return {**_workload(), "num_copies": max(0, num_programs - len(programs)), "rows": rows}


def _row(policy: str, rate_per_s: float, *, num_programs: int, num_engines: int, num_repeats: int) -> Row:
    programs, engine = chats().programs, engine_config(policy)
    played, timing = measure(
        lambda: play(programs, num_programs=num_programs, rate_per_s=rate_per_s, engine=engine, num_engines=num_engines),
        num_repeats,
    )
    cpu_s = min(timing.cpu_s)
    return {
        "policy": policy,
        "rate_per_s": rate_per_s,
        "num_engines": num_engines,
        **asdict(played),
        **timing.summary(),
        "calls_per_s": played.num_calls / cpu_s,
        "steps_per_s": played.num_steps / cpu_s,
        "output_tokens_per_s": played.output_tokens / cpu_s,
    }


def _workload() -> dict[str, Any]:
    workload = chats()
    return {"workload": workload.name, "num_left_out": workload.num_left_out}


def _scaled(number: float, scale: float) -> int:
    return max(1, round(number * scale))
