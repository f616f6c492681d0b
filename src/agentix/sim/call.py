"""A call inside a modelled engine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from agentix.sim.content import Contents, Context


@dataclass(slots=True, kw_only=True, eq=False)
class SimCall:
    """What is computed of a call. Known tokens are its prompt and the answer so far; `num_computed` have their KV in blocks.

    A step computes some of the known tokens that are not computed; when none is left it yields the next token of the
    answer. So the KV of the last token is never computed, and a preempted call computes its own answer again.
    """

    call_id: str
    program_id: str
    prompt: Context
    answer: Hashable
    num_output_wanted: int
    prompt_tokens: int = field(init=False)
    num_computed: int = 0
    num_room: int = 0  # tokens that the blocks it holds have room for
    num_output: int = 0
    has_yielded: bool = False  # a token since it last entered the batch
    cached_tokens: int | None = None
    first_token_s: float | None = None

    def __post_init__(self) -> None:
        self.prompt_tokens = self.prompt.num_tokens

    @property
    def num_known(self) -> int:
        """Tokens of prompt and answer so far."""
        return self.prompt_tokens + self.num_output

    @property
    def is_decoding(self) -> bool:
        """Whether the next step computes one token, the answer's latest."""
        return self.num_output > 0 and self.num_computed == self.num_known - 1

    def known(self, contents: Contents) -> Context:
        """The known tokens."""
        return contents.extend(self.prompt, self.answer, self.num_output)
