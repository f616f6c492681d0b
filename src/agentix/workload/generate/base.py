"""The seam of synthetic workloads, and the random lengths that the kinds have in common."""

from __future__ import annotations

import math
import random
from typing import Protocol

from agentix.core.errors import ConfigError
from agentix.workload.trace import Program


class ProgramGenerator(Protocol):
    """What does the next program of this kind look like?

    A generator holds options only; all chance comes from the `rng` handed in, so the same seed gives the same programs.
    The programs are length-only: their prompts are named segments, and a segment that programs share (a system prompt)
    has the same name and length in all of them.
    """

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """Program number `index`, from 0; its id depends on kind and index alone."""
        ...


def at_least(minimum: float, **options: float) -> None:
    """Raise a ConfigError for the first option that is below `minimum` or not finite."""
    for name, value in options.items():
        if not (math.isfinite(value) and value >= minimum):
            raise ConfigError(f"{name} must be at least {minimum} and finite, not {value}")


def lognormal_tokens(rng: random.Random, mu: float, sigma: float, *, cap: int | None = None) -> int:
    """A lognormal length rounded up, so at least 1, and at most `cap`. `mu` and `sigma` are those of ln(tokens)."""
    tokens = math.ceil(rng.lognormvariate(mu, sigma))
    return tokens if cap is None else min(tokens, cap)


def mean_tokens(rng: random.Random, mean: float, sigma: float, *, cap: int) -> int:
    """The same, by the mean of the lognormal before rounding (+ 0.5 in the mean): mu = ln(mean) - sigma² / 2."""
    return lognormal_tokens(rng, math.log(mean) - sigma**2 / 2, sigma, cap=cap)


def gap_s(rng: random.Random, mean_s: float) -> float:
    """An exponential gap of that mean; 0 without a draw if the mean is 0."""
    return rng.expovariate(1 / mean_s) if mean_s else 0.0
