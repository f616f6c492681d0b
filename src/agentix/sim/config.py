"""What engine is modelled, and what it has done."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentix.core.config import SchedulerConfig
from agentix.core.errors import AgentixError, ConfigError
from agentix.cost import EngineFacts

PREEMPTIONS = ("none", "recompute", "swap", "park")


class CapacityError(AgentixError):
    """A call that the engine can never hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What engine is modelled. Names follow vLLM where it has them.

    preemption          of a running call when a better one waits: "none" leaves it running; "park" keeps its KV blocks
                        until somebody better needs them; "swap" moves its KV to host memory, which every call of the
                        step waits for; "recompute" drops it (what is left in the prefix cache comes back)
    bulk_swap           a swap moves one gathered buffer, as the paper's kernel does, instead of block by block
    chunked_prefill     off: a prompt is computed in one step, alone if it is longer than `max_batch_tokens`
    steps_per_schedule  the batch is chosen anew every so many steps (paper §4.2.2, multi-step scheduling)
    num_spare_calls     preempted calls with KV on the device that may take the places of calls which finish before
                        the next choice (paper: over-provisioning)
    scheduling_s        seconds that a choice takes while the device waits
    max_bulk_steps      so many steps that differ in context length alone are played as one; outcomes are the same, except that
                        several engines tell each other then what running calls have had: for `gittins`, the only policy that
                        looks at that, a program with calls on two engines may change its level so much later
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    max_num_seqs: int = 64
    max_batch_tokens: int = 2048
    num_blocks: int = 25_000
    block_size: int = 16
    prefix_cache: bool = True
    chunked_prefill: bool = True
    preemption: str = "park"
    bulk_swap: bool = True
    steps_per_schedule: int = 1
    num_spare_calls: int = 0
    scheduling_s: float = 0.0
    max_bulk_steps: int = 1024

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_batch_tokens", "num_blocks", "block_size", "steps_per_schedule", "max_bulk_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("num_spare_calls", "scheduling_s"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.preemption not in PREEMPTIONS:
            raise ConfigError(f"unknown preemption {self.preemption!r}; known: {', '.join(PREEMPTIONS)}")

    @property
    def kv_tokens(self) -> int:
        """Tokens of context that the KV blocks hold."""
        return self.num_blocks * self.block_size


def engine_like(facts: EngineFacts) -> EngineConfig:
    """The settings of an engine that was measured, as far as it has told them."""
    return EngineConfig(
        max_num_seqs=facts.max_num_seqs,
        max_batch_tokens=facts.max_batch_tokens,
        num_blocks=facts.num_blocks,
        block_size=facts.block_size,
        prefix_cache=facts.prefix_cache,
    )


@dataclass(slots=True)
class EngineCounts:
    """What an engine has done so far; tokens and times are sums.

    num_preemptions    running calls that had to leave the batch, for a better call or for want of blocks
    num_evictions      calls whose KV left the device before they were over
    recomputed_tokens  tokens whose KV was dropped thereby, before the prefix cache gives any back
    num_swaps          transfers of a call's KV to host memory or back; `swap_s` is the time the device waited for them
    scheduling_s       time the device waited for choices of a batch
    """

    num_steps: int = 0
    busy_s: float = 0.0
    num_preemptions: int = 0
    num_evictions: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    num_swaps: int = 0
    swapped_tokens: int = 0
    swap_s: float = 0.0
    num_choices: int = 0
    scheduling_s: float = 0.0
