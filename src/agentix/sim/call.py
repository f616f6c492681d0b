"""A call inside a modelled engine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from agentix.sim.content import Contents, Context


@dataclass(slots=True, kw_only=True, eq=False)
class SimCall:
    """What is computed of a call. Known tokens are its prompt and the answer so far; `num_computed` have their KV in blocks.

    A step computes some of the known tokens that are not computed; when none is left it yields the next token of the
    answer. So the KV of the last token is never computed, and a call whose KV was dropped computes its own answer again.

    The rest is for the record: seconds on the executor, seconds that the device waited for its swaps, how often it had to
    leave the batch, and the longest it waited without service.
    """

    call_id: str
    program_id: str
    prompt: Context
    answer: Hashable
    num_output_wanted: int
    waiting_since_s: float = 0.0
    prompt_tokens: int = field(init=False)
    num_computed: int = 0
    num_room: int = 0  # tokens that the blocks it holds have room for
    num_swapped: int = 0  # tokens whose KV lies in host memory
    num_output: int = 0
    has_yielded: bool = False  # a token since it last entered the batch
    cached_tokens: int | None = None
    first_token_s: float | None = None
    service_s: float = 0.0
    swap_s: float = 0.0
    num_preemptions: int = 0
    longest_wait_s: float = 0.0

    def __post_init__(self) -> None:
        self.prompt_tokens = self.prompt.num_tokens

    @property
    def num_known(self) -> int:
        """Tokens of prompt and answer so far."""
        return self.prompt_tokens + self.num_output

    def known(self, contents: Contents) -> Context:
        """The known tokens."""
        return contents.extend(self.prompt, self.answer, self.num_output)

    def start(self, now: float) -> None:
        """It enters the batch."""
        self.has_yielded = False
        self.longest_wait_s = max(self.longest_wait_s, now - self.waiting_since_s)

    def stop(self, now: float) -> None:
        """It leaves the batch before its end."""
        self.num_preemptions += 1
        self.waiting_since_s = now

    def lose_kv(self, now: float) -> None:
        """Its engine is gone; it waits on another one and begins again."""
        self.num_computed = self.num_room = self.num_swapped = 0
        self.cached_tokens = None
        self.has_yielded = False
        self.waiting_since_s = now

    def advance(self, num_tokens: int) -> None:
        """A step computed `num_tokens` tokens; once all known tokens are computed it yields a token of the answer."""
        self.num_computed += num_tokens
        if self.num_computed == self.num_known:
            self.num_output += 1
            self.has_yielded = True
