"""What the evaluation compares, and on what: systems, programs, machines. Chosen once, for all figures."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError
from agentix.sim.config import EngineConfig
from agentix.workload import Program, generate_programs, load_programs
from agentix.workload.generate import Chat, Mixed, ProgramGenerator, React, Tree

DEVICE = "a100-80gb"
MODEL = "llama-3.1-8b"

# The defaults of `agentix`. `python -m benchmarks.paper.search`, on another seed than that of the figures, found quanta of 4 to
# 128 s and 4, 16, 64 s within 2 % of them in mean token latency, and no difference between β = 5 and none at all.
QUANTA_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
STARVATION_RATIO: float | None = 20.0

# vLLM 0.6, which the paper extends, chose a batch on the CPU while the device waited, and its multi-step scheduling did so
# every few decode steps. How many steps and how long a choice takes are assumptions, the same for all systems.
NUM_STEPS = 8
SCHEDULING_S = 2e-3
NUM_SPARE_CALLS = 8

VLLM_ENGINE = EngineConfig(
    scheduler=SchedulerConfig(policy="fcfs", quanta_s=QUANTA_S, starvation_ratio=STARVATION_RATIO),
    max_num_seqs=64,
    max_batch_tokens=32_768,  # as long as the longest prompt: without chunks vLLM asks for that
    prefix_cache=False,
    chunked_prefill=False,
    preemption="recompute",
    scheduling_s=SCHEDULING_S,
)
VLLM_OPT_ENGINE = replace(
    VLLM_ENGINE, max_batch_tokens=2048, prefix_cache=True, chunked_prefill=True, steps_per_schedule=NUM_STEPS
)
AGENTIX_ENGINE = replace(VLLM_OPT_ENGINE, preemption="swap", bulk_swap=True, num_spare_calls=NUM_SPARE_CALLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A scheduler in an engine; its label is how figures and results name it."""

    label: str
    engine: EngineConfig

    @classmethod
    def of(cls, label: str, engine: EngineConfig, policy: str) -> System:
        """The engine under that policy."""
        return cls(label=label, engine=replace(engine, scheduler=replace(engine.scheduler, policy=policy)))


VLLM = System.of("vLLM", VLLM_ENGINE, "fcfs")
VLLM_OPT = System.of("vLLM-opt", VLLM_OPT_ENGINE, "fcfs")
MLFQ = System.of("MLFQ", AGENTIX_ENGINE, "mlfq")
PLAS = System.of("Agentix", AGENTIX_ENGINE, "plas")
ATLAS = System.of("Agentix", AGENTIX_ENGINE, "atlas")


def systems_for(workload: str) -> tuple[System, ...]:
    """The systems of the main comparison; Agentix uses PLAS where programs have one thread, else ATLAS (paper §4.2.1)."""
    return (VLLM, VLLM_OPT, MLFQ, PLAS if workload in SINGLE_THREADED else ATLAS)


SINGLE_THREADED = ("chat", "react", "sharegpt", "bfcl")

# A person takes minutes to answer. The latency of a program counts that time too, and it would be nearly all of it.
_CHAT = Chat(human_gap_scale=0.0)
_GENERATORS: dict[str, ProgramGenerator] = {"chat": _CHAT, "react": React(), "tree": Tree(), "mixed": Mixed(chat=_CHAT)}

# Recorded programs, as a second line where `AGENTIX_TRACE_DIR` holds them.
TRACES = {"sharegpt": "sharegpt_lengths", "bfcl": "bfcl_multi_turn_oracle"}


def trace_path(workload: str) -> Path | None:
    """The file of a recorded workload; None if it is not there."""
    folder = os.environ.get("AGENTIX_TRACE_DIR")
    path = Path(folder) / f"{TRACES[workload]}.jsonl.gz" if folder and workload in TRACES else None
    return path if path is not None and path.exists() else None


def make_programs(workload: str, *, num_programs: int, seed: int) -> Sequence[Program]:
    """The programs of a workload, without arrivals: drawn by the seed, or all that were recorded.

    A workload that stands in no list here is `module:Class` of a generator.
    """
    if workload in _GENERATORS:
        rng = random.Random(f"{seed}/programs")  # noqa: S311 - not for secrets
        return [_GENERATORS[workload].generate(rng, index=index) for index in range(num_programs)]
    if ":" in workload:
        rng = random.Random(f"{seed}/programs")  # noqa: S311 - not for secrets
        return generate_programs(workload, rng, num_programs=num_programs)
    path = trace_path(workload)
    if path is None:
        raise ConfigError(f"no programs for workload {workload!r}: it is recorded, and AGENTIX_TRACE_DIR does not hold it")
    return _load(path)


@lru_cache(maxsize=1)
def _load(path: Path) -> Sequence[Program]:
    return [program for program in load_programs(path) if all(call.prompt_tokens for call in program.calls)]
