"""Equal thirds of recorded chats, function-calling agents and tree searches, the paper's Mixed from real programs."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

from agentix.workload import Program, load_programs
from benchmarks.policy.cell import trace_file

_PARTS = ("mtbench101_chat", "bfcl_multi_turn_oracle", "tot_game24")


class MixedTraces:
    """A generator of programs, each drawn from one of three traces in turn."""

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """A program of the trace whose turn it is."""
        part = _PARTS[index % len(_PARTS)]
        return replace(rng.choice(_load(part)), program_id=f"{part}-{index}")


@lru_cache(maxsize=len(_PARTS))
def _load(part: str) -> list[Program]:
    return list(load_programs(trace_file(part)))
