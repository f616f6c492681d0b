"""What is simulated: recorded chats where there are any, else synthetic ones; one kind of engine."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentix.core.balancers import make_balancer
from agentix.core.config import SchedulerConfig
from agentix.cost import Roofline, device_card, model_card
from agentix.sim.config import EngineConfig
from agentix.sim.simulation import Simulation
from agentix.workload import Program, generate_programs, load_programs
from agentix.workload.draw import draw_programs

DEVICE, MODEL = "a100-80gb", "llama-3.1-8b"
MAX_PROMPT_TOKENS = 100_000  # longer prompts and their answers may not fit the KV cache of 400,000 tokens beside others
_NUM_GENERATED = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Programs to draw from, how they are named in results, and how many were left out for their long prompts."""

    name: str
    programs: Sequence[Program]
    num_left_out: int


def engine_config(policy: str, *, prefix_cache: bool = True) -> EngineConfig:
    """64 slots, 25,000 blocks of 16 tokens, steps of 2,048 tokens at most."""
    return EngineConfig(scheduler=SchedulerConfig(policy=policy), prefix_cache=prefix_cache)


def cost_model() -> Roofline:
    """The step times of DEVICE and MODEL."""
    return Roofline(device_card(DEVICE), model_card(MODEL))


@cache
def chats() -> Workload:
    """The recorded lengths of ShareGPT if AGENTIX_TRACE_DIR holds them, else programs of the generator `chat`."""
    path = Path(os.environ.get("AGENTIX_TRACE_DIR", "")) / "sharegpt_lengths.jsonl.gz"
    if path.is_file():
        return select("ShareGPT, recorded lengths", load_programs(path))
    rng = random.Random("0/programs")  # noqa: S311 - not for secrets
    return select("chat, synthetic", generate_programs("chat", rng, num_programs=_NUM_GENERATED))


def select(name: str, programs: Sequence[Program]) -> Workload:
    """Those that can be played: every prompt has a token, and no more than MAX_PROMPT_TOKENS."""
    fit = [p for p in programs if all(0 < call.prompt_tokens <= MAX_PROMPT_TOKENS for call in p.calls)]
    return Workload(name=name, programs=fit, num_left_out=len(programs) - len(fit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a simulation did."""

    num_programs: int
    num_calls: int
    num_steps: int
    output_tokens: int
    makespan_s: float
    last_arrival_s: float


def play(
    programs: Sequence[Program], *, num_programs: int, rate_per_s: float, engine: EngineConfig, num_engines: int = 1
) -> Played:
    """Draw `num_programs` of them with Poisson arrivals, seed 0, and simulate to the end."""
    drawn = draw_programs(programs, num_programs=num_programs, rate_per_s=rate_per_s, seed=0)
    return play_drawn(drawn, engine=engine, num_engines=num_engines)


def play_drawn(drawn: Sequence[tuple[Program, float]], *, engine: EngineConfig, num_engines: int = 1) -> Played:
    """Simulate programs with their arrivals in seconds, earliest first, to the end."""
    simulation = Simulation(
        [program for program, _ in drawn],
        [arrival_s for _, arrival_s in drawn],
        engine=engine,
        cost=cost_model(),
        balancer=make_balancer("program_affinity"),
        num_engines=num_engines,
    )
    records = simulation.run()
    calls = [call for record in records for call in record.calls]
    return Played(
        num_programs=len(records),
        num_calls=len(calls),
        num_steps=sum(e.counts.num_steps for e in simulation.engines.values()),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        makespan_s=max(call.end_s or 0.0 for call in calls),
        last_arrival_s=drawn[-1][1],
    )
