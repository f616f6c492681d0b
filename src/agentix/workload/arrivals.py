"""When programs arrive: seconds since the run began, the first program at 0."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence

from agentix.core.errors import ConfigError
from agentix.workload.errors import TraceError
from agentix.workload.trace import Program


def poisson_arrivals(rng: random.Random, *, num_programs: int, rate_per_s: float) -> list[float]:
    """Arrival times in seconds of a Poisson process: independent exponential gaps of mean 1 / `rate_per_s`.

    The first program arrives at 0, so a slow rate does not begin with a wait. An infinite rate puts every program at
    0 (an offline batch). With one seed the gaps at two rates differ only by the factor between the rates.
    """
    return _arrivals(num_programs, (rng.expovariate(rate_per_s) for _ in itertools.count()))


def gamma_arrivals(rng: random.Random, *, num_programs: int, rate_per_s: float, cv: float) -> list[float]:
    """Arrival times in seconds with independent gamma gaps of mean 1 / `rate_per_s` and coefficient of variation `cv`.

    cv = standard deviation ÷ mean of the gaps: 1 gives Poisson arrivals (in distribution, not draw by draw), 3 is a
    common choice for bursts, towards 0 the gaps become equal. Shape 1 / cv², scale cv² / rate. Raises ConfigError.
    """
    if not (cv > 0 and math.isfinite(cv)):
        raise ConfigError(f"cv must be above 0 and finite, not {cv}")
    if not rate_per_s > 0:
        raise ConfigError(f"rate_per_s must be above 0, not {rate_per_s}")
    shape = cv**-2
    return _arrivals(num_programs, (rng.gammavariate(shape, 1.0) / shape / rate_per_s for _ in itertools.count()))


def trace_arrivals(programs: Sequence[Program], *, speed_up: float = 1.0) -> list[float]:
    """The programs' own `arrival_s`, in the order given, moved so that the earliest is 0 and divided by `speed_up`.

    Speed-up 2 is twice the recorded load. Gaps inside programs stay as they are. Raises TraceError for a program that
    has no arrival time and ConfigError for a speed-up that is not above 0.
    """
    if not speed_up > 0:
        raise ConfigError(f"speed_up must be above 0, not {speed_up}")
    arrivals: list[float] = []
    for program in programs:
        if program.arrival_s is None:
            raise TraceError("arrival_s is missing", program_id=program.program_id)
        arrivals.append(program.arrival_s)
    first = min(arrivals, default=0.0)
    return [(arrival - first) / speed_up for arrival in arrivals]


def _arrivals(num_programs: int, gaps: Iterable[float]) -> list[float]:
    return list(itertools.islice(itertools.accumulate(gaps, initial=0.0), num_programs))
