"""The engines that serve the same calls, and the arms on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SLOTS = 8
_STRESS = {
    "policy": "benchmarks.greedy_equality.shuffled:Shuffled",
    "running_first": False,
    "weigh_evictions": False,  # as many evictions as there can be
    "preemption": "park",
    "starvation_ratio": 2.0,
}


ALONE, STOCK, AGAIN = "one at a time", "stock", "stock again"


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityEngine:
    """How an engine is started, and what is done with it.

    arms          served one after the other; none finds anything in the prefix cache of those before it
    settings      of the plug-in; None: stock vLLM
    num_blocks    of the KV cache, of 32 tokens; all calls at once need about 400
    """

    arms: tuple[str, ...]
    settings: Mapping[str, Any] | None = None
    num_blocks: int = 1000

    @property
    def vllm_args(self) -> tuple[str, ...]:
        """For vLLM. float32, since near-ties flip with the shape of the batch in anything coarser."""
        sizes = {
            "--max-num-seqs": SLOTS,
            "--max-model-len": 1024,
            "--block-size": 32,
            "--num-gpu-blocks-override": self.num_blocks,
        }
        return ("--dtype", "float32", *(str(part) for pair in sizes.items() for part in pair))


ENGINES = (
    EqualityEngine(arms=(ALONE, STOCK, AGAIN)),
    EqualityEngine(arms=("park",), settings={**_STRESS, "quanta_s": [0.05, 0.1, 0.2]}),
    EqualityEngine(arms=("park, scarce KV",), settings={**_STRESS, "quanta_s": [0.4, 0.8, 1.6]}, num_blocks=100),
    EqualityEngine(arms=("recompute",), settings={**_STRESS, "preemption": "recompute", "quanta_s": [0.4, 0.8, 1.6]}),
)
