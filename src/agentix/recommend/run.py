"""From the question to the answer: try everything on a few variants, measure what looked best on others."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentix.metrics.interval import Interval, ratio_interval
from agentix.recommend.choose import Comparison, Verdict, choose, compare, hardly_waits, judge
from agentix.recommend.config import NUM_TRIALS, Arm, RecommendConfig
from agentix.recommend.play import NAMES, Numbers, OnDone, play
from agentix.recommend.variants import Variants


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer.

    trials     candidates: ratios to what is in use, by number, on the variants on which they were tried
    comparison  what looked best against what is in use, on variants of its own
    fewer      the same with one engine fewer; None if there is but one
    """

    config: RecommendConfig
    num_programs: int
    num_calls: int
    trials: Mapping[Arm, Mapping[str, Interval]]
    comparison: Comparison
    verdict: Verdict
    hardly_waits: bool
    fewer: Comparison | None

    @property
    def proposal(self) -> Arm | None:
        """What to change to; None: leave everything as it is."""
        return self.comparison.arm if self.verdict is Verdict.CHANGE else None

    @property
    def one_engine_fewer_would_do(self) -> bool:
        """Whether programs would be faster than now, in the mean and in the tail, on one engine fewer."""
        return self.fewer is not None and self.fewer.is_never_slower


def num_cases(config: RecommendConfig) -> int:
    """How many simulations there are at most."""
    policies, balancers = config.candidates()
    num_arms = len(policies) + (len(balancers) if len(balancers) > 1 else 0)
    return NUM_TRIALS * num_arms + config.num_repeats * (3 if config.now.num_engines > 1 else 2)


def recommend(config: RecommendConfig, *, num_processes: int, on_done: OnDone = lambda: None) -> Recommendation:
    """Answer the question. The same trace and settings give the same answer. Raises AgentixError for bad input, named.

    First all policies with the balancer in use are tried on the first variants, then all balancers with the best policy: a walk
    along both axes, not every pair. What looked best is then compared with what is in use on variants that had no part in
    choosing it, so that its gain is not flattered by the choice. With several engines, it is also compared on one fewer.
    """
    now = config.now
    with tempfile.TemporaryDirectory(prefix="agentix-recommend-") as folder:
        variants = Variants(config, Path(folder))

        def run(
            arm: Arm, numbers: Sequence[int], *, policies: Sequence[str] = (), balancers: Sequence[str] = ()
        ) -> dict[Arm, Sequence[Numbers]]:
            return dict(
                play(
                    variants,
                    numbers,
                    policies=policies or (arm.policy,),
                    balancers=balancers or (arm.balancer,),
                    num_engines=arm.num_engines,
                    num_processes=num_processes,
                    on_done=on_done,
                )
            )

        policies, balancers = config.candidates()
        trials = run(now, range(NUM_TRIALS), policies=policies)
        best = choose(trials, now)
        if len(balancers) > 1:
            trials |= run(best, range(NUM_TRIALS), balancers=balancers)
            best = choose(trials, now)
        fresh = range(NUM_TRIALS, NUM_TRIALS + config.num_repeats)
        base = run(now, fresh)[now]
        comparison = compare(best, base if best == now else run(best, fresh)[best], base)
        fewer = None
        if now.num_engines > 1:
            smaller = replace(best, num_engines=now.num_engines - 1)
            fewer = compare(smaller, run(smaller, fresh)[smaller], base)
        return Recommendation(
            config=config,
            num_programs=len(variants.programs),
            num_calls=sum(len(program.calls) for program in variants.programs),
            trials={arm: _ratios(numbers, trials[now]) for arm, numbers in trials.items()},
            comparison=comparison,
            verdict=judge(comparison, now),
            hardly_waits=hardly_waits(base),
            fewer=fewer,
        )


def _ratios(own: Sequence[Numbers], base: Sequence[Numbers]) -> dict[str, Interval]:
    found = {name: ratio_interval((o[name], b[name]) for o, b in zip(own, base, strict=True)) for name in NAMES}
    return {name: interval for name, interval in found.items() if interval is not None}
