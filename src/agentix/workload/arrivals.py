"""When programs arrive."""

from __future__ import annotations

import random


def poisson_arrivals(rng: random.Random, *, num_programs: int, rate_per_s: float) -> list[float]:
    """Arrival times in seconds of a Poisson process: independent exponential gaps of mean 1 / `rate_per_s`.

    The first program arrives at 0, so a slow rate does not begin with a wait. An infinite rate puts every program at
    0 (an offline batch). With one seed the gaps at two rates differ only by the factor between the rates.
    """
    arrivals: list[float] = []
    now_s = 0.0
    for _ in range(num_programs):
        arrivals.append(now_s)
        now_s += rng.expovariate(rate_per_s)
    return arrivals
