"""What one iteration of an engine computes, and the seam behind which its duration is modelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The work of one iteration, in four counts; no request, program or clock.

    prefill_tokens          prompt tokens computed, over all prefill chunks in the step
    prefill_pairs           (query, key) pairs that these tokens attend to, themselves included: see `causal_pairs`
    num_decodes             sequences that compute one token each
    decode_context_tokens   tokens whose keys and values the decodes read, over all of them

    A negative count is a ValueError.
    """

    prefill_tokens: int = 0
    prefill_pairs: int = 0
    num_decodes: int = 0
    decode_context_tokens: int = 0

    def __post_init__(self) -> None:
        if self.prefill_tokens < 0 or self.prefill_pairs < 0 or self.num_decodes < 0 or self.decode_context_tokens < 0:
            raise ValueError(f"a step cannot hold less than no work: {self}")

    @property
    def is_empty(self) -> bool:
        """Nothing to do: every count is 0."""
        return not (self.prefill_tokens or self.num_decodes or self.prefill_pairs or self.decode_context_tokens)


class StepCostModel(Protocol):
    """How long does this step take?

    A model holds no state between steps: the same step always takes the same time. Two promises, on which a simulator
    may lean: an empty step takes 0 s, and a step that is larger in any count and smaller in none never takes less time.
    """

    def step_s(self, step: Step, /) -> float:
        """Duration of the step in seconds, finite and ≥ 0."""
        ...


class UnitCost:
    """Every step takes one second, whatever is in it; an empty one takes none. For tests and worked examples."""

    def step_s(self, step: Step, /) -> float:
        """1.0, or 0.0 for an empty step."""
        return 0.0 if step.is_empty else 1.0


def causal_pairs(num_tokens: int, num_before: int = 0) -> int:
    """Pairs of a prefill chunk of n tokens that follows b tokens already in the KV cache: n·b + n·(n + 1)/2.

    Each token attends to the b before the chunk, to those before it within the chunk, and to itself. Chunks add up:
    the pairs of a prompt are the same however it is cut.
    """
    return num_tokens * num_before + num_tokens * (num_tokens + 1) // 2
