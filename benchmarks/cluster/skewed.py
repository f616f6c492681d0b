"""Skewed load: among conversations a few programs that fork into hundreds of calls over one long text."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from agentix.workload import Call, Program
from agentix.workload.generate import Chat
from agentix.workload.parts import Part, answer_name
from benchmarks.cluster.part import GUARDED, LEAST_USED, PAPER, SESSION_HASH, Numbers, table, verdict
from benchmarks.paper.figure import scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import ATLAS
from benchmarks.paper.sweep import Outcomes

_BALANCERS = (LEAST_USED, SESSION_HASH, PAPER, GUARDED)
_NUM_ENGINES = 4
_RATES_PER_ENGINE = (1.0, 2.5)  # programs per second: with room to spare, and more than the engines keep up with
_WINDOW_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skewed:
    """Conversations, and in their midst, one in `every`, a program that asks `num_questions` of one long text at once."""

    every: int = 80
    num_questions: int = 300
    text_tokens: int = 6000
    question_tokens: int = 60
    answer_tokens: int = 150

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """A conversation or, in the middle of each `every`, one of those."""
        if index % self.every != self.every // 2:
            return Chat(human_gap_scale=0.0).generate(rng, index=index)
        program_id = f"wide-{index}"
        text: Part = (f"{program_id}/text", self.text_tokens)
        first = self._call("read", (), (text,))
        wide = [
            self._call(f"ask{i}", ("read",), (text, (f"{program_id}/question{i}", self.question_tokens)))
            for i in range(self.num_questions)
        ]
        answers = tuple((answer_name(program_id, call.call_id), call.output_tokens) for call in wide[:20])
        last = self._call("join", tuple(call.call_id for call in wide), (text, *answers))
        return Program(program_id=program_id, workload="wide", calls=(first, *wide, last))

    def _call(self, call_id: str, parents: tuple[str, ...], prompt: tuple[Part, ...]) -> Call:
        return Call(
            call_id=call_id,
            parents=parents,
            prompt_tokens=sum(tokens for _, tokens in prompt),
            output_tokens=self.answer_tokens,
            prompt_parts=prompt,
            tool_gap_s=0.0,
        )


def _point(balancer: str, rate_per_engine: float, scale: float) -> Point:
    rate_per_s = rate_per_engine * _NUM_ENGINES
    return Point(
        system=ATLAS,
        workload="benchmarks.cluster.skewed:Skewed",
        rate_per_s=rate_per_s,
        num_programs=scaled(round(rate_per_s * _WINDOW_S), scale),
        num_engines=_NUM_ENGINES,
        balancer=balancer,
    )


class SkewedLoad:
    """The part."""

    name = "skewed"

    def points(self, scale: float) -> Sequence[Point]:
        """Every balancer once at each rate."""
        return [_point(balancer, rate, scale) for rate in _RATES_PER_ENGINE for balancer in _BALANCERS]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Response times, by kind of program where that is known, and the work."""
        return {
            "num_engines": _NUM_ENGINES,
            "program": {name: getattr(Skewed(), name) for name in Skewed.__slots__},
            "loads": [
                {
                    "rate_per_engine": rate,
                    "num_programs": _point(GUARDED, rate, scale).num_programs,
                    "runs": {
                        balancer: {
                            "jct_s": {"mean": run.jct.mean, "p95": run.jct.p95, "p99": run.jct.p99},
                            "token_latency_by_kind": run.latency_by_kind,
                            "makespan_s": run.makespan_s,
                            "hit_rate": run.hit_rate,
                        }
                        for balancer in _BALANCERS
                        for run in [outcomes[_point(balancer, rate, scale)]]
                    },
                }
                for rate in _RATES_PER_ENGINE
            ],
        }

    def text(self, numbers: Numbers) -> str:
        """For each rate a table, and whether the guard beats pure pinning for all programs and for the wide ones."""
        program = numbers["program"]
        parts = [
            "## Skewed load",
            f"Conversations on {numbers['num_engines']} engines, but one program in {program['every']} asks "
            f"{program['num_questions']} questions at once about one text of {program['text_tokens']:,} tokens: pure pinning "
            "sends them all to one engine. The guard moves what waits there to engines that are free, each of which then "
            "computes the text once. One draw for each rate: some percent are chance.",
        ]
        for load in numbers["loads"]:
            pinned, guarded = load["runs"][PAPER], load["runs"][GUARDED]
            jct = all(guarded["jct_s"][name] < pinned["jct_s"][name] for name in ("mean", "p99"))
            wide, pinned_wide, spread_wide = (_wide(load["runs"][name]) for name in (GUARDED, PAPER, LEAST_USED))
            parts += [
                f"**{load['num_programs']} programs, {load['rate_per_engine']:g} per second and engine.** The guard beats pure "
                f"pinning in mean and P99 of response times: {verdict(jct)} For wide programs: {verdict(wide < pinned_wide)} "
                f"They take {wide / spread_wide:.1f} times as long as where nothing stays at home (`{LEAST_USED}`).",
                _table(load["runs"]),
            ]
        return "\n\n".join(parts)


def _wide(run: Numbers) -> float:
    return float(run["token_latency_by_kind"].get("wide", math.nan))


def _table(runs: Numbers) -> str:
    rows = [
        [
            f"`{balancer}`",
            *(f"{run['jct_s'][name]:.2f}" for name in ("mean", "p95", "p99")),
            *(f"{1000 * run['token_latency_by_kind'].get(kind, 0.0):.2f}" for kind in ("chat", "wide")),
            f"{run['makespan_s']:.0f}",
            f"{run['hit_rate']:.0%}",
        ]
        for balancer, run in runs.items()
    ]
    head = ("balancer", "mean JCT, s", "P95", "P99", "chat, ms/token", "wide, ms/token", "makespan, s", "prefix hits")
    return table(head, rows)
