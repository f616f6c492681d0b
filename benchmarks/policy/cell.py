"""One run: which policy, on which programs, under what load."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.engine.settings import PluginSettings
from agentix.sim.config import EngineConfig
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import run_case

KV_TOKENS = 400_000
NUM_SLOTS = 64
DEVICE, MODEL = "a100-80gb", "llama-3.1-8b"

# Programs of a run: so many that a queue can build up, and no more, since a run must not take minutes.
TRACES = {
    "coding_swe_agent_lengths": 200,
    "bfcl_multi_turn_oracle": 250,
    "tau_bench_airline": 200,
    "sharegpt_lengths": 400,
    "mtbench101_chat": 500,
    "react_hotpotqa_fireact": 500,
    "tot_game24": 60,
    "mixed": 240,
}
BOUND = "benchmarks.policy.bound:ResidentSRPT"
POLICIES = ("fcfs", "plas", "default", "program_fcfs", "pause_resume", "las", "srpt", BOUND)

# The load at which programs take so many times as long as alone is what an engine under first come, first served can carry.
_SATURATED = 5.0
_ALONE_PER_S = 0.002
_AT_ONCE_PER_S = 100.0  # who has not come to take so long by then never does, being too few


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A run. `rate_per_s` is programs per second; `arrivals` poisson or gamma (bursts)."""

    trace: str
    policy: str
    rate_per_s: float
    arrivals: str = "poisson"
    seed: int = 0
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What is kept of a run: seconds, seconds per token, share of prompt tokens found in the cache."""

    jct_s: float
    jct_p99_s: float
    token_latency_s: float
    makespan_s: float
    hit_rate: float


def trace_file(trace: str) -> Path:
    """Where the programs are. Raises ConfigError if `AGENTIX_TRACE_DIR` does not hold them."""
    folder = os.environ.get("AGENTIX_TRACE_DIR")
    path = Path(folder or "") / f"{trace}.jsonl.gz"
    if not folder or not path.exists():
        raise ConfigError(f"no programs for {trace!r}: they are recorded, and AGENTIX_TRACE_DIR does not hold them")
    return path


def engine_under(policy: str) -> EngineConfig:
    """The engine that is modelled. The default policy and what is built on it (dotted paths) have the rules that engines have.

    The paper's policies and other systems' are taken as they are published.
    """
    rules = PluginSettings().scheduler if policy == "default" or ":" in policy else SchedulerConfig()
    return EngineConfig(scheduler=replace(rules, policy=policy), max_num_seqs=NUM_SLOTS)


def play(cell: Cell) -> Result:
    """Simulate. The same cell gives the same result."""
    workload = "benchmarks.policy.mixed:MixedTraces" if cell.trace == "mixed" else str(trace_file(cell.trace))
    config = SimulationConfig(
        workload=workload,
        num_programs=max(10, round(TRACES[cell.trace] * cell.scale)),
        rates_per_s=(cell.rate_per_s,),
        arrivals=cell.arrivals,
        seeds=(cell.seed,),
        policies=(cell.policy,),
        device=DEVICE,
        model=MODEL,
        kv_tokens=KV_TOKENS,
        engine=engine_under(cell.policy),
    )
    document = run_case(config, config.cases()[0]).document()
    return Result(
        jct_s=document["jct_s"]["mean"],
        jct_p99_s=document["jct_s"]["p99"],
        token_latency_s=document["program_token_latency_s"]["mean"],
        makespan_s=document["makespan_s"],
        hit_rate=document["prefix_hit_rate"],
    )


def play_as_mapping(cell: Cell) -> dict[str, Any]:
    """The same, ready for JSON; here and not beside `main`, so that another process finds it."""
    return asdict(play(cell))


def find_saturation(trace: str, scale: float) -> float:
    """Programs per second at which first come, first served is saturated, within 3 %; _AT_ONCE_PER_S at the most."""

    def mean_jct_s(rate_per_s: float) -> float:
        return play(Cell(trace=trace, policy="fcfs", rate_per_s=rate_per_s, scale=scale)).jct_s

    bound_s = _SATURATED * mean_jct_s(_ALONE_PER_S)
    low = 0.05
    while low < _AT_ONCE_PER_S and mean_jct_s(2 * low) <= bound_s:
        low *= 2
    if low >= _AT_ONCE_PER_S:
        return _AT_ONCE_PER_S
    high = 2 * low
    while high / low > 1.03:
        middle = (low * high) ** 0.5
        if mean_jct_s(middle) <= bound_s:
            low = middle
        else:
            high = middle
    return low
