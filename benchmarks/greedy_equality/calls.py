"""What is asked: the same calls in every arm."""

from __future__ import annotations

import random
from dataclasses import dataclass

_TOPICS = (
    "bridges",
    "bread",
    "comets",
    "glaciers",
    "harbours",
    "clocks",
    "forests",
    "violins",
    "railways",
    "volcanoes",
    "maps",
    "salt",
)
_TASKS = (
    "Explain to a child how {} came to be.",
    "Write a short story in which {} matter.",
    "List five questions that an engineer would ask about {}.",
    "Summarise what you know about {} and say what you are unsure of.",
    "Compare {} of today with those of a hundred years ago.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One greedy call of a program, `arrival_s` after the first."""

    program_id: str
    prompt: str
    max_tokens: int
    arrival_s: float


def make_calls(num_calls: int, *, spread_s: float, seed: int = 5) -> tuple[Asked, ...]:
    """Calls of twelve programs in a random order. Calls of a program share the beginning of their prompts, 50 to 250 tokens."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    notes = {
        topic: " ".join(f"Note {n}: {topic} {rng.choice(_TOPICS)} {n * n}." for n in range(rng.randint(5, 25)))
        for topic in _TOPICS
    }
    calls = []
    for index in range(num_calls):
        topic = _TOPICS[index % len(_TOPICS)]
        task = _TASKS[index // len(_TOPICS) % len(_TASKS)].format(topic)
        calls.append(
            Asked(
                program_id=topic,
                prompt=f"{notes[topic]}\n{index}. {task}\nAnswer:",
                max_tokens=rng.randint(60, 100),
                arrival_s=rng.uniform(0, spread_s),
            )
        )
    return tuple(calls)
