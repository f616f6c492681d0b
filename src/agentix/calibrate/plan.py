"""What to send to an engine so that its steps tell the coefficients of a cost model apart.

Prompts are random token ids: their lengths are exact, and they share a prefix only where the plan wants it. A plan is
made of rounds that all hold the same kinds of load in shuffled order, so that a machine which gets slower or faster
for a while does so to every kind alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_TOKEN_IDS = range(1_000, 16_000)  # ordinary tokens in the vocabulary of every model in use
_SHORTEST = 16
_MIXED_PER_SLOT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One call: its prompt as token ids, and how many tokens it answers with."""

    prompt: tuple[int, ...]
    output_tokens: int


Burst = tuple[Probe, ...]
"""Calls sent together, once every call of the burst before is over."""


def make_round(rng: random.Random, *, num_slots: int, max_prompt_tokens: int) -> list[Burst]:
    """One round for an engine that runs `num_slots` calls at once. Prompts have up to `max_prompt_tokens` tokens.

    First a prefix of half that length, which the later bursts find in the cache. Then, shuffled: prompts of each
    length alone; more of them after the prefix; decodes of 1, 2, 4, … calls with little and with much context; and more
    calls of every length than there are slots, so that prefills and decodes share steps.
    """
    prefix = _tokens(rng, max(_SHORTEST, max_prompt_tokens // 2))
    lengths = _doubling(_SHORTEST, max_prompt_tokens)
    alone = [(Probe(prompt=_tokens(rng, n), output_tokens=4),) for n in lengths]
    continued = [(_after(rng, prefix, n, output_tokens=1),) for n in lengths if n <= max_prompt_tokens // 4]
    decodes = [
        tuple(_after(rng, prefix[:context], _SHORTEST // 2, output_tokens=12) for _ in range(num_calls))
        for num_calls in _doubling(1, num_slots)
        for context in (len(prefix) // 8, len(prefix))
    ]
    mixed = tuple(_mixed(rng, prefix, max_prompt_tokens) for _ in range(_MIXED_PER_SLOT * num_slots))
    bursts = [*alone, *continued, *decodes, mixed]
    rng.shuffle(bursts)
    return [(Probe(prompt=prefix, output_tokens=1),), *bursts]


def _mixed(rng: random.Random, prefix: tuple[int, ...], max_prompt_tokens: int) -> Probe:
    """A call of a length that is as likely between 16 and 32 tokens as between 128 and 256; half continue the prefix."""
    length = round(_SHORTEST * (max_prompt_tokens / 2 / _SHORTEST) ** rng.random())
    return _after(rng, prefix if rng.random() < 0.5 else (), length, output_tokens=rng.randint(4, 32))


def _after(rng: random.Random, prefix: tuple[int, ...], num_tokens: int, *, output_tokens: int) -> Probe:
    return Probe(prompt=(*prefix, *_tokens(rng, num_tokens)), output_tokens=output_tokens)


def _tokens(rng: random.Random, num_tokens: int) -> tuple[int, ...]:
    return tuple(rng.choices(_TOKEN_IDS, k=num_tokens))


def _doubling(first: int, last: int) -> list[int]:
    """`first`, twice that, … as far as `last`, which is always there."""
    values = []
    while first < last:
        values.append(first)
        first *= 2
    return [*values, last]
