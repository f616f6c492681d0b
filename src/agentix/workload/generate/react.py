"""Agents that call tools turn by turn, fitted to BFCL multi-turn runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentix.workload.generate.base import at_least, gap_s, lognormal_tokens, mean_tokens
from agentix.workload.generate.chain import Chain
from agentix.workload.parts import Part
from agentix.workload.trace import Program

MIN_SYSTEM_TOKENS, MAX_SYSTEM_TOKENS = 1500, 7000  # tool schemas make BFCL's system prompts this long
TURNS = {3: 0.40, 4: 0.27, 5: 0.20, 6: 0.09, 7: 0.03, 8: 0.01}  # mean 4.1, as in BFCL
TOOL_CALLS = {1: 0.66, 2: 0.23, 3: 0.11}  # per turn before retries, mean 1.45, as in BFCL
RETRY_PROBABILITY = 0.08  # that a tool call fails and is made again; a retry can fail too
STUCK_PROBABILITY = 0.01  # that a program has one turn in which it goes round in circles
STUCK_CALLS = 20
ERROR_TOKENS = 20  # what a failed tool answers


@dataclass(frozen=True, slots=True, kw_only=True)
class React:
    """A system prompt with tools, then turns: the user asks, a few calls each use a tool, a closing call answers.

    | quantity | distribution | source |
    |---|---|---|
    | turns | 3-8, mean 4.1 | BFCL multi-turn |
    | tool calls a turn | 1-3, mean 1.45, then retries; one closing call follows | BFCL multi-turn |
    | system prompt | 1,500-7,000 tokens, one length and name per tool set | BFCL multi-turn |
    | user's tokens per turn | lognormal(3.73, 0.84); mean about 60 | BFCL multi-turn |
    | tool's tokens per answer | lognormal(2.81, 1.46), at most 4,000; mean about 48 | BFCL multi-turn |
    | output tokens per call | lognormal of mean 34, sigma 0.6, at most 500 | BFCL, as in the Agentix paper |

    About 10.7 calls per program (the paper: 10.75). A program uses one of `num_tool_sets` tool sets, each equally
    likely; the shorter of their system prompts are the first. `tool_gap_mean_s` passes while a tool runs (exponential);
    the default 0 stands for BFCL's simulated APIs and scripted users.
    """

    num_tool_sets: int = 8
    tool_gap_mean_s: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, num_tool_sets=self.num_tool_sets)
        at_least(0, tool_gap_mean_s=self.tool_gap_mean_s)

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """One run of an agent."""
        chain = Chain(f"react-{index}", "react")
        num_turns = _weighted(rng, TURNS)
        stuck_turn = rng.randrange(num_turns) if rng.random() < STUCK_PROBABILITY else None
        new: tuple[Part, ...] = (self._system_prompt(rng.randrange(self.num_tool_sets)),)
        for turn in range(num_turns):
            new = (*new, chain.part("user", lognormal_tokens(rng, 3.73, 0.84, cap=2000)))
            num_calls = STUCK_CALLS if turn == stuck_turn else _weighted(rng, TOOL_CALLS)
            while num_calls > 0:
                self._append(chain, rng, new, after="tool", kind="tool")
                failed = turn != stuck_turn and rng.random() < RETRY_PROBABILITY
                new = (chain.part("tool", ERROR_TOKENS if failed else lognormal_tokens(rng, 2.81, 1.46, cap=4000)),)
                num_calls -= not failed
            self._append(chain, rng, new, after="human" if turn < num_turns - 1 else "end", kind="closing")
            new = ()
        return chain.program()

    def _append(self, chain: Chain, rng: random.Random, new: tuple[Part, ...], *, after: str, kind: str) -> None:
        pause_s = gap_s(rng, self.tool_gap_mean_s) if after == "tool" else 0.0 if after == "human" else None
        chain.append(*new, output_tokens=mean_tokens(rng, 34, 0.6, cap=500), after=after, gap_s=pause_s, kind=kind)

    def _system_prompt(self, tool_set: int) -> Part:
        """Lengths are spread evenly over their range, so they depend on no draw and all programs agree on them."""
        spread = MAX_SYSTEM_TOKENS - MIN_SYSTEM_TOKENS
        return f"react/tools{tool_set}", MIN_SYSTEM_TOKENS + spread * tool_set // max(1, self.num_tool_sets - 1)


def _weighted(rng: random.Random, weights: dict[int, float]) -> int:
    return rng.choices(list(weights), list(weights.values()))[0]
