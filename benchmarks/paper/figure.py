"""The seam of a figure: which runs it needs, what numbers it makes of them, what those say, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.paper.point import Point
from benchmarks.paper.sweep import Outcomes

Numbers = dict[str, Any]
"""What a figure shows, ready for JSON: text and picture are made from it alone."""

Line = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: lines of (x, y) by label, or `bars` of heights by label over the `groups`; `level` is a dashed line."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Line] | None = None
    bars: Mapping[str, Sequence[float | None]] | None = None
    groups: Sequence[str] = ()
    level: float | None = None
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence about the numbers. `holds`: whether the paper's claim does; `why` explains it if not. None: no claim."""

    text: str
    holds: bool | None = None
    why: str = ""


class Figure(Protocol):
    """A figure of the paper. `scale` is the share of the full number of programs: 1 but for tests."""

    number: str
    title: str
    claim: str

    def points(self, scale: float) -> Sequence[Point]:
        """The runs it needs."""
        ...

    def numbers(self, outcomes: Outcomes, scale: float) -> Numbers:
        """What came of them."""
        ...

    def findings(self, numbers: Numbers) -> Sequence[Finding]:
        """What the numbers say, first of all about the claim."""
        ...

    def panels(self, numbers: Numbers) -> Sequence[Panel]:
        """How to draw them."""
        ...


def scaled(num_programs: int, scale: float) -> int:
    """The number of programs at that scale, at least 3: one of each kind in a mixed workload."""
    return max(3, round(num_programs * scale))
