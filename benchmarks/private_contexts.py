"""Programs that share nothing, with text, for `agentix ab` and `agentix bench` where KV is to be scarce.

    python -m benchmarks.private_contexts FILE.jsonl.gz [--programs 48] [--seed 1]

Each begins with a document of its own, of 600 to 1,100 tokens, and asks questions about it, one after the other; in between
a tool works for 1 s on average. They end with contexts of 0.8 to 1.4 thousand tokens, 48 of them with 52,000 together.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from agentix.workload import Call, Program, save_programs

# Each is one token in the vocabularies of today's models, with the space before it.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand part "
    "place case week company system question work government number night point home water room mother area money story fact"
)
_WORDS = _TEXT.split()
_TEMPLATE_TOKENS = 8  # that a chat template puts around a message, about


def make_program(number: int, rng: random.Random) -> Program:
    """One program of 2 to 5 calls, each with an answer of 20 to 50 tokens."""
    calls: list[Call] = []
    num_context_tokens = 0
    for index in range(rng.randint(2, 5)):
        num_words = rng.randint(600, 1100) if index == 0 else rng.randint(15, 40)
        answer = rng.choices(_WORDS, k=rng.randint(20, 50))
        num_context_tokens += num_words + _TEMPLATE_TOKENS
        calls.append(
            Call(
                call_id=f"c{index}",
                parents=(f"c{index - 1}",) if index else (),
                inherits=index > 0,
                messages=({"role": "user", "content": " ".join(rng.choices(_WORDS, k=num_words))},),
                prompt_tokens=num_context_tokens,
                output_tokens=len(answer),
                output_text=" ".join(answer),
                tool_gap_s=round(rng.expovariate(1.0), 3),
            )
        )
        num_context_tokens += len(answer) + _TEMPLATE_TOKENS
    return Program(program_id=f"private-{number}", workload="private", calls=tuple(calls))


def main() -> None:
    """Parse and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--programs", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)  # noqa: S311 - not for secrets
    save_programs(args.file, [make_program(number, rng) for number in range(args.programs)])


if __name__ == "__main__":
    main()
