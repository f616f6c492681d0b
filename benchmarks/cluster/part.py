"""The seam of a part of the page: which runs it needs, what numbers it makes of them, and what those say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from benchmarks.paper.point import Point
from benchmarks.paper.sweep import Outcomes

Numbers = dict[str, Any]
"""What a part shows, ready for JSON: the text is made from it alone."""

ROUND_ROBIN, LEAST_USED, SESSION_HASH = "round_robin", "least_used", "session_hash"
PAPER = "program_affinity+min_gain=inf"  # the paper's algorithm 2
GUARDED = "program_affinity"


class Part(Protocol):
    """A part of the page. `scale` is the share of the full length of every run: 1 but to try things out."""

    name: str

    def points(self, scale: float) -> Sequence[Point]:
        """The runs it needs."""
        ...

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """What came of them."""
        ...

    def text(self, numbers: Numbers) -> str:
        """What they say, in Markdown, under a heading of its own."""
        ...


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def verdict(holds: bool) -> str:
    """Whether a claim holds, in bold."""
    return "**It holds.**" if holds else "**It does not hold here.**"
