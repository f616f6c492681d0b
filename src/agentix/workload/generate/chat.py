"""People talking to a model, fitted to ShareGPT conversations."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentix.workload.generate.base import at_least, lognormal_tokens
from agentix.workload.generate.chain import Chain
from agentix.workload.trace import Program

MAX_CALLS = 80  # longest conversation kept; ShareGPT has a thin tail beyond
MAX_OUTPUT_TOKENS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Whole conversations; nothing is shared between two of them.

    | quantity | distribution | source |
    |---|---|---|
    | calls per program | lognormal(1.19, 1.09) rounded up, at most 80; mean about 6 | ShareGPT |
    | user's tokens per call | lognormal(3.37, 1.16); mean about 57 | ShareGPT |
    | output tokens per call | lognormal(5.23, 1.10), at most 2000; mean about 320 | ShareGPT |
    | seconds until the user's next message | lognormal(4.88, 0.98); mean about 213 | sessions in a production chat trace |

    A lognormal(mu, sigma) has median exp(mu). The prompts grow by every question and answer, so their mean is far above
    the user's tokens. `human_gap_scale` multiplies the gaps: short runs need people who answer sooner; say so in results.
    """

    human_gap_scale: float = 1.0

    def __post_init__(self) -> None:
        at_least(0, human_gap_scale=self.human_gap_scale)

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """One conversation."""
        chain = Chain(f"chat-{index}", "chat")
        num_calls = lognormal_tokens(rng, 1.19, 1.09, cap=MAX_CALLS)
        for turn in range(num_calls):
            last = turn == num_calls - 1
            chain.append(
                chain.part("user", lognormal_tokens(rng, 3.37, 1.16)),
                output_tokens=lognormal_tokens(rng, 5.23, 1.10, cap=MAX_OUTPUT_TOKENS),
                after="end" if last else "human",
                gap_s=None if last else self.human_gap_scale * rng.lognormvariate(4.88, 0.98),
            )
        return chain.program()
