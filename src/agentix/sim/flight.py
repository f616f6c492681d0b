"""Steps in the air: begun, not yet over."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from agentix.cost.step import Step, causal_pairs
from agentix.sim.call import SimCall


@dataclass(slots=True)
class Work:
    """What a step computes. `calls` are all that are in it, best first; each is also in one of the next two.

    decodes                calls that compute the latest token of their answers, and nothing else
    chunks                 the others, with so many tokens of each
    decode_context_tokens  known tokens of those that decode
    until_finish           so many steps in a row are at least needed until a call of it finishes
    """

    calls: list[SimCall] = field(default_factory=list)
    decodes: list[SimCall] = field(default_factory=list)
    chunks: list[tuple[SimCall, int]] = field(default_factory=list)
    decode_context_tokens: int = 0
    until_finish: int = 1 << 30

    @property
    def step(self) -> Step:
        """The step in the numbers that its duration depends on."""
        return Step(
            prefill_tokens=sum(num_tokens for _, num_tokens in self.chunks),
            prefill_pairs=sum(causal_pairs(num_tokens, call.num_computed) for call, num_tokens in self.chunks),
            num_decodes=len(self.decodes),
            decode_context_tokens=self.decode_context_tokens,
        )


@dataclass(slots=True)
class Flight:
    """One step, or several in a row that each compute one token of the same calls, all of which decode.

    `work` is that of each step, `ends_s` when each of them ends. A flight of several can be cut short at the end of a
    step, which makes it the same as steps played one by one.
    """

    began_s: float
    work: Work
    ends_s: list[float]

    @property
    def end_s(self) -> float:
        """When the last of its steps ends."""
        return self.ends_s[-1]

    def has_end_at(self, now: float) -> bool:
        """Whether one of its steps ends now."""
        place = bisect_left(self.ends_s, now)
        return place < len(self.ends_s) and self.ends_s[place] == now

    def num_begun(self, now: float) -> int:
        """How many of its steps have begun before `now`."""
        return min(bisect_left(self.ends_s, now) + 1, len(self.ends_s))

    def cut(self, now: float) -> bool:
        """Keep the steps that have begun before `now`; returns whether any were dropped."""
        num_begun = self.num_begun(now)
        if num_begun == len(self.ends_s):
            return False
        del self.ends_s[num_begun:]
        return True


def following_step(step: Step, num_steps: int) -> Step:
    """The step that comes so many after `step`, when all that happens is that its decodes go on."""
    return Step(num_decodes=step.num_decodes, decode_context_tokens=step.decode_context_tokens + num_steps * step.num_decodes)
