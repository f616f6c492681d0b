"""Skewed load: among conversations a few programs that fork into hundreds of calls over one long text."""

from __future__ import annotations

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
_RATE_PER_ENGINE = 2.5
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


def _point(balancer: str, scale: float) -> Point:
    rate_per_s = _RATE_PER_ENGINE * _NUM_ENGINES
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
        """Every balancer once."""
        return [_point(balancer, scale) for balancer in _BALANCERS]

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Response times, by kind of program where that is known, and the work."""
        runs = {balancer: outcomes[_point(balancer, scale)] for balancer in _BALANCERS}
        return {
            "num_engines": _NUM_ENGINES,
            "num_programs": _point(GUARDED, scale).num_programs,
            "program": {name: getattr(Skewed(), name) for name in Skewed.__slots__},
            "runs": {
                balancer: {
                    "jct_s": {"mean": run.jct.mean, "p95": run.jct.p95, "p99": run.jct.p99},
                    "token_latency_by_kind": run.latency_by_kind,
                    "makespan_s": run.makespan_s,
                    "hit_rate": run.hit_rate,
                }
                for balancer, run in runs.items()
            },
        }

    def text(self, numbers: Numbers) -> str:
        """A table, and whether the guard beats pure pinning for both kinds."""
        runs, program = numbers["runs"], numbers["program"]
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
        pinned, guarded = runs[PAPER], runs[GUARDED]
        holds = guarded["jct_s"]["mean"] < pinned["jct_s"]["mean"] and guarded["jct_s"]["p99"] < pinned["jct_s"]["p99"]
        head = ("balancer", "mean JCT, s", "P95", "P99", "chat, ms/token", "wide, ms/token", "makespan, s", "prefix hits")
        return "\n\n".join(
            [
                "## Skewed load",
                f"{numbers['num_programs']} programs on {numbers['num_engines']} engines, conversations but for one in "
                f"{program['every']}, which asks {program['num_questions']} questions at once about one text of "
                f"{program['text_tokens']:,} tokens: pure pinning sends them all to one engine. The guard moves what waits "
                f"there to engines that are free, each of which then computes the text once. It beats pure pinning in mean "
                f"and P99: {verdict(holds)}",
                table(head, rows),
            ]
        )
