"""Steps in the air: begun, not yet over."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from agentix.cost.step import Step, causal_pairs
from agentix.sim.call import SimCall

Work = list[tuple[SimCall, int]]


@dataclass(slots=True)
class Flight:
    """One step, or several in a row that each compute one token of the same calls.

    `work` is the tokens that a step computes of each call, `ends_s` when each of the steps ends, `decodes` whether every
    call computes the latest token of its answer, which several steps always do. A flight of several can be
    cut short at the end of a step, which makes it the same as steps played one by one.
    """

    began_s: float
    work: Work
    ends_s: list[float]
    decodes: bool

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


def survey(work: Work) -> tuple[Step, int]:
    """The step in the numbers that its duration depends on, and how many steps in a row no call of it finishes before.

    The second is 1 if a call of it does not decode: after that step something else is to be computed.
    """
    prefill_tokens = prefill_pairs = num_decodes = decode_context_tokens = 0
    until_finish = 1 << 30
    for call, num_tokens in work:
        num_output = call.num_output
        num_known = call.prompt_tokens + num_output
        if num_output and call.num_computed == num_known - 1:
            num_decodes += 1
            decode_context_tokens += num_known
            until_finish = min(until_finish, call.num_output_wanted - num_output)
        else:
            prefill_tokens += num_tokens
            prefill_pairs += causal_pairs(num_tokens, call.num_computed)
    step = Step(
        prefill_tokens=prefill_tokens,
        prefill_pairs=prefill_pairs,
        num_decodes=num_decodes,
        decode_context_tokens=decode_context_tokens,
    )
    return step, 1 if prefill_tokens else until_finish


def following_step(step: Step, num_steps: int) -> Step:
    """The step that comes so many after `step`, when all that happens is that its decodes go on."""
    return Step(num_decodes=step.num_decodes, decode_context_tokens=step.decode_context_tokens + num_steps * step.num_decodes)
