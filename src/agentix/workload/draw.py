"""Which programs of a workload run, in what order, and when: the same for a seed in a benchmark and in a simulation."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentix.workload.arrivals import gamma_arrivals, poisson_arrivals
from agentix.workload.trace import Program


def draw_programs(
    programs: Sequence[Program], *, num_programs: int, rate_per_s: float, seed: int, gap_cv: float | None = None
) -> list[tuple[Program, float]]:
    """`num_programs` of `programs` in seeded order, each with its arrival in seconds, the first at 0.

    Arrivals are Poisson; with `gap_cv` their gaps are gamma instead, of that coefficient of variation.

    Order and arrivals come from two independent streams of the seed. If there are too few programs they are gone
    through again, newly shuffled; copies share their prompts, so a prefix cache finds them easier. `programs` must
    not be empty.
    """
    rng = random.Random(f"{seed}/order")  # noqa: S311 - not for secrets
    chosen: list[Program] = []
    while len(chosen) < num_programs:
        chosen += rng.sample(programs, len(programs))
    rng = random.Random(f"{seed}/arrivals")  # noqa: S311
    if gap_cv is None:
        arrivals = poisson_arrivals(rng, num_programs=num_programs, rate_per_s=rate_per_s)
    else:
        arrivals = gamma_arrivals(rng, num_programs=num_programs, rate_per_s=rate_per_s, cv=gap_cv)
    return list(zip(chosen[:num_programs], arrivals, strict=True))
