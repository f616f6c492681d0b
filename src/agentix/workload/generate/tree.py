"""Tree search in the manner of LATS: levels of parallel samples, judged before the search goes deeper."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from agentix.workload.generate.base import at_least, gap_s, mean_tokens
from agentix.workload.parts import Part, Parts, answer_name
from agentix.workload.trace import Call, Program

NUM_SAMPLES = 5  # n of LATS on HotpotQA
MIN_GROWTH_TOKENS, MAX_GROWTH_TOKENS = 100, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A question searched in several iterations of several levels.

    A level: 5 parallel samples of one identical prompt, then 2-5 value calls on different samples once all samples have
    ended, then a barrier: the next level waits for every value call. One sample's answer and the environment's
    observation then join the trajectory. An iteration is 4-7 levels deep and starts from the question again; there are
    2-5 of them. Calls per program: 3.5 iterations x 5.5 levels x 8.5 calls = 164 in the mean.

    Aims (LATS on HotpotQA as the Agentix paper's evaluation measured it): 159.7 calls per program; 467 prompt and 73 output
    tokens per call. Outputs are lognormal of mean 73, sigma 0.6. A level adds 100-400 tokens, answer included, mostly
    near 100, as an average prompt of 467 leaves no room for more. Samples share one few-shot prefix of
    `few_shot_tokens` across all programs, value calls another. `tool_gap_mean_s` passes in the environment between two
    levels (exponential): 0 for local look-ups, about 2.4 on the web.
    """

    few_shot_tokens: int = 94
    tool_gap_mean_s: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, few_shot_tokens=self.few_shot_tokens)
        at_least(0, tool_gap_mean_s=self.tool_gap_mean_s)

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """One search."""
        search = _Search(self, rng, f"tree-{index}")
        for _ in range(rng.randint(2, 5)):
            search.iterate(num_levels=rng.randint(4, 7))
        return search.program()


@dataclass(slots=True)
class _Search:
    """The calls so far. `_barrier` is what the next level waits for."""

    options: Tree
    rng: random.Random
    program_id: str
    calls: list[Call] = field(default_factory=list)
    question: Part = ("", 0)
    barrier: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.question = (f"{self.program_id}/question", mean_tokens(self.rng, 30, 0.4, cap=100))

    def iterate(self, *, num_levels: int) -> None:
        """One iteration from the root down."""
        trajectory: Parts = (self.question,)
        for step in range(num_levels):
            trajectory = self._level(trajectory, step)

    def program(self) -> Program:
        """The search so far; nothing follows its last barrier."""
        return Program(program_id=self.program_id, workload="tree", calls=tuple(self.calls))

    def _level(self, trajectory: Parts, step: int) -> Parts:
        """Add a level's calls; returns the trajectory that the next level continues."""
        options, rng = self.options, self.rng
        prompt = (("tree/sample", options.few_shot_tokens), *trajectory)
        samples = [self._call("sample", prompt, self.barrier, step, 0.0) for _ in range(NUM_SAMPLES)]
        answers = [(answer_name(self.program_id, call.call_id), call.output_tokens) for call in samples]
        all_samples = tuple(call.call_id for call in samples)
        pause_s = gap_s(rng, options.tool_gap_mean_s)
        judged = rng.sample(answers, rng.randint(2, NUM_SAMPLES))
        prefix = ("tree/value", options.few_shot_tokens)
        values = [self._call("value", (prefix, *trajectory, answer), all_samples, step, pause_s) for answer in judged]
        self.barrier = tuple(call.call_id for call in values)
        best = rng.choice(judged)
        return (*trajectory, best, self._observation(best))

    def _observation(self, answer: Part) -> Part:
        """What the environment says to the chosen answer: the rest of a growth of 100-400 tokens, at least 10."""
        growth = min(MAX_GROWTH_TOKENS, MIN_GROWTH_TOKENS + int(self.rng.expovariate(1 / 25)))
        return f"{answer[0]}:observation", max(10, growth - answer[1])

    def _call(self, kind: str, prompt: Parts, parents: tuple[str, ...], step: int, pause_s: float) -> Call:
        call = Call(
            call_id=f"c{len(self.calls)}",
            parents=parents,
            prompt_tokens=sum(tokens for _, tokens in prompt),
            output_tokens=mean_tokens(self.rng, 73, 0.6, cap=300),
            prompt_parts=prompt,
            tool_gap_s=pause_s,
            kind=kind,
            step=step,
        )
        self.calls.append(call)
        return call
