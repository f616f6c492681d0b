"""Figure 7: what calls of one program, and of different programs, have in common. No engine is involved."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from statistics import fmean

from agentix.sim.content import Contents, Context
from agentix.workload import Program, program_parts
from agentix.workload.parts import Parts
from benchmarks.paper.figure import Finding, Numbers, Panel, scaled
from benchmarks.paper.point import Point
from benchmarks.paper.setup import make_programs
from benchmarks.paper.sweep import Outcomes

_BLOCK = 16
_NUM_OTHERS = 8
_BINS = (256, 512, 1024, 2048, 4096, 8192)
_WORKLOADS = {"chat": 60, "react": 60, "tree": 12}


class Sharing:
    """Figure 7."""

    number = "7"
    title = "Prefix shared within a program and across programs"
    claim = "over 90 % of a prompt is found in its own program at any length; across programs the share falls off fast"

    def points(self, scale: float) -> Sequence[Point]:
        """None."""
        return []

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """Mean share of a prompt's full blocks that earlier calls of its program, or one call of another, begin with."""
        return {
            "bins": [f"≤{bound}" for bound in _BINS],
            "workloads": {
                name: _shares(make_programs(name, num_programs=scaled(count, scale), seed=0))
                for name, count in _WORKLOADS.items()
            },
        }

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """The least within, the most across, among long prompts."""
        findings = []
        for name, shares in numbers["workloads"].items():
            within, across = _present(shares["within"]), _present(shares["across"])
            findings.append(
                Finding(
                    text=f"{name}: within its program {min(within):.0%} to {max(within):.0%} by length of prompt, across "
                    f"programs from {across[0]:.0%} at the shortest to {across[-1]:.0%} at the longest.",
                    holds=min(within) > 0.9 and across[-1] <= across[0],
                    why="Only full blocks of 16 tokens count, and what a turn adds is no small part of a short prompt.",
                )
            )
        return findings

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """A panel per workload."""
        return [
            Panel(title=name, x="prompt tokens", y="share found", bars=shares, groups=numbers["bins"])
            for name, shares in numbers["workloads"].items()
        ]


def _shares(programs: Sequence[Program]) -> dict[str, list[float | None]]:
    contents = Contents()
    prompts = [[_keys(contents, parts.prompt) for parts in program_parts(program).values()] for program in programs]
    calls = [[_keys(contents, (*p.prompt, p.answer)) for p in program_parts(program).values()] for program in programs]
    rng = random.Random("figure 7")  # noqa: S311 - not for secrets
    within: list[list[float]] = [[] for _ in _BINS]
    across: list[list[float]] = [[] for _ in _BINS]
    for i, own in enumerate(prompts):
        seen: set[tuple[int, int]] = set()
        for j, prompt in enumerate(own):
            place = next((k for k, bound in enumerate(_BINS) if len(prompt) * _BLOCK <= bound), None)
            if prompt and place is not None:
                if j > 0:
                    within[place].append(_found(prompt, seen))
                others = [rng.choice(calls[rng.choice([k for k in range(len(calls)) if k != i])]) for _ in range(_NUM_OTHERS)]
                across[place].append(fmean(_found(prompt, set(other)) for other in others))
            seen.update(calls[i][j])
    return {"within": [_mean(v) for v in within], "across": [_mean(v) for v in across]}


def _keys(contents: Contents, parts: Parts) -> list[tuple[int, int]]:
    context = Context()
    for name, num_tokens in parts:
        context = contents.extend(context, name, num_tokens)
    return context.block_keys(_BLOCK)


def _found(prompt: Sequence[tuple[int, int]], seen: set[tuple[int, int]]) -> float:
    """Equal keys mean equal prefixes, so what is found is a prefix."""
    return sum(key in seen for key in prompt) / len(prompt)


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return fmean(values) if values else None


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
