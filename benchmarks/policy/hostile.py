"""One run of a hostile workload: its programs alone, where first come, first served is saturated, and under a policy."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from statistics import fmean
from typing import Any

from agentix.core.balancers import make_balancer
from agentix.cost import Roofline, device_card, model_card
from agentix.metrics import ProgramRecord, percentile
from agentix.metrics.definitions import jct_s, makespan_s, program_token_latency_s
from agentix.metrics.service import prefix_hit_rate
from agentix.sim.simulation import Simulation
from agentix.workload import Program, check_program, poisson_arrivals
from benchmarks.policy.cell import DEVICE, KV_TOKENS, MODEL, engine_under
from benchmarks.policy.shapes import ABANDONED, SHAPES

SATURATED = 5.0  # times the time in the engine that a program has alone, in the mean
_APART_S = 1e5  # far enough that every program is alone
_AT_ONCE = 32  # the first rate tried is that of so many programs at a time
_STEP = 1.2  # the saturation is looked for between two rates that differ by so much


@lru_cache(maxsize=2)
def make_programs(shape: str, scale: float, seed: int = 0) -> tuple[Program, ...]:
    """The programs in the order in which they come; the same for the same arguments."""
    rng = random.Random(f"{seed}/{shape}")  # noqa: S311 - not for secrets
    programs = tuple(SHAPES[shape].make(rng, scale))
    for program in programs:
        check_program(program)
    return programs


def simulate(programs: Sequence[Program], arrivals_s: Sequence[float], policy: str) -> list[ProgramRecord]:
    """Play them on the engine of this benchmark; a record each, in the order given."""
    engine = engine_under(policy)
    return Simulation(
        programs,
        arrivals_s,
        engine=replace(engine, num_blocks=KV_TOKENS // engine.block_size),
        cost=Roofline(device_card(DEVICE), model_card(MODEL)),
        balancer=make_balancer("program_affinity"),
    ).run()


@lru_cache(maxsize=2)
def jct_alone_s(shape: str, scale: float) -> tuple[float, ...]:
    """How long each program takes with the engine to itself, seconds: its gaps, and what one of the same lengths takes."""
    programs = make_programs(shape, scale)
    alike = {_lengths(program): program for program in programs}
    records = simulate(list(alike.values()), [_APART_S * i for i in range(len(alike))], "fcfs")
    busy_s = {
        lengths: _jct_s(record) - gaps_s(program) for (lengths, program), record in zip(alike.items(), records, strict=True)
    }
    return tuple(busy_s[_lengths(program)] + gaps_s(program) for program in programs)


def gaps_s(program: Program) -> float:
    """Seconds in which the tools of a chain, or of a program without gaps, are at work."""
    return sum(call.tool_gap_s or 0.0 for call in program.calls)


def _lengths(program: Program) -> tuple[tuple[int, int], ...]:
    return tuple((call.prompt_tokens, call.output_tokens) for call in program.calls)


def arrivals(shape: str, scale: float, rate_per_s: float | None) -> list[float]:
    """When the programs come: Poisson at a rate, or evenly within the seconds that the shape says."""
    num_programs, at_once_s = len(make_programs(shape, scale)), SHAPES[shape].at_once_s
    if at_once_s is not None or rate_per_s is None:
        return [(at_once_s or 0.0) * i / num_programs for i in range(num_programs)]
    rng = random.Random(f"0/arrivals/{shape}")  # noqa: S311
    return poisson_arrivals(rng, num_programs=num_programs, rate_per_s=rate_per_s)


def play(shape: str, policy: str, rate_per_s: float | None, scale: float) -> dict[str, Any]:
    """Simulate. The same arguments give the same numbers, but for `cpu_s`, seconds of a core.

    Returns seconds, seconds per token, the share of prompt tokens found in the cache, and in `worst_slowdown` the largest
    JCT per JCT alone. Abandoned programs do not count: they have no end.
    """
    alone_s, programs = jct_alone_s(shape, scale), make_programs(shape, scale)
    began_s = time.process_time()
    records = simulate(programs, arrivals(shape, scale, rate_per_s), policy)
    cpu_s = time.process_time() - began_s
    return _outcome(programs, records, alone_s, cpu_s)


def find_saturation(shape: str, scale: float) -> dict[str, float]:
    """Programs per second from which on, under first come, first served, they spend SATURATED times as long in the engine.

    Tools do not count. Where they never take that long, since they are too few, 16 times the first rate tried.
    """
    programs, began_s = make_programs(shape, scale), time.process_time()
    counted = [i for i, program in enumerate(programs) if program.meta["kind"] != ABANDONED]
    idle_s = fmean(gaps_s(programs[i]) for i in counted)
    alone_s = fmean(jct_alone_s(shape, scale)[i] for i in counted) - idle_s

    @cache
    def is_saturated(rate_per_s: float) -> bool:
        records = simulate(programs, arrivals(shape, scale, rate_per_s), "fcfs")
        return fmean(_jct_s(records[i]) for i in counted) - idle_s > SATURATED * alone_s

    high = _AT_ONCE / alone_s
    most = 16 * high
    while high < most and not is_saturated(high):
        high *= 2
    low = high / 2
    while is_saturated(low):
        low, high = low / 2, low
    while high / low > _STEP:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_saturated(middle) else (middle, high)
    return {"rate_per_s": (low * high) ** 0.5, "cpu_s": time.process_time() - began_s}


def _outcome(
    programs: Sequence[Program], records: Sequence[ProgramRecord], alone_s: Sequence[float], cpu_s: float
) -> dict[str, Any]:
    counted = [i for i, program in enumerate(programs) if program.meta["kind"] != ABANDONED]
    jcts_s = {i: _jct_s(records[i]) for i in counted}
    kinds = sorted({programs[i].meta["kind"] for i in counted})
    token_latencies_s = [program_token_latency_s(records[i]) or 0.0 for i in counted]
    return {
        "jct_s": fmean(jcts_s.values()),
        "jct_p99_s": percentile(jcts_s.values(), 99),
        "token_latency_s": fmean(token_latencies_s),
        "makespan_s": makespan_s([records[i] for i in counted]),
        "hit_rate": prefix_hit_rate(records),
        "worst_slowdown": max(jct / alone_s[i] for i, jct in jcts_s.items()),
        "jct_by_kind_s": {k: fmean(jct for i, jct in jcts_s.items() if programs[i].meta["kind"] == k) for k in kinds},
        "cpu_s": cpu_s,
    }


def _jct_s(record: ProgramRecord) -> float:
    jct = jct_s(record)
    if jct is None:
        raise ValueError(f"program {record.program_id} has not ended well")
    return jct
