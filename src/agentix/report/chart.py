"""What a chart is, before anybody draws it: data that a drawing and a table are made from alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points by x. `bounds`: the interval at each point, None where there is none. `style`: the arm's number, for its colour.

    steps: the value stays until the next point, as that of an empirical distribution does.
    """

    label: str
    style: int
    xs: Sequence[float]
    ys: Sequence[float]
    bounds: Sequence[Bounds | None] = ()
    steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar in each group of the panel; `stacked` panels put one on another, others side by side. None: no bar."""

    label: str
    style: int
    heights: Sequence[float | None]
    bounds: Sequence[Bounds | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when to when something went on in a row, of those from 0 on; `strong`: in full colour."""

    row: int
    start_s: float
    end_s: float
    strong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: lines, or bars over `groups`, or spans in rows. `x_max`: where the x axis ends, if not with the data."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    groups: Sequence[str] = ()
    bars: Sequence[Bars] = ()
    stacked: bool = False
    spans: Sequence[Span] = ()
    num_rows: int = 0
    log_x: bool = False
    x_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells as text, the first column a row's name."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels under one heading. `slug` names its file, `text` says how to read it, `table` has its numbers."""

    slug: str
    title: str
    text: str
    panels: Sequence[Panel]
    table: Table


def number(value: float | None) -> str:
    """A number for people: three digits, or whole if it is large."""
    return "–" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def with_bounds(centre: float | None, bounds: Bounds | None) -> str:
    """A number and the interval around it, if there is one."""
    return number(centre) if bounds is None else f"{number(centre)} [{number(bounds[0])}, {number(bounds[1])}]"
