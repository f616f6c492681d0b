"""Timelines as a picture: who was served and who waited, program by program."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping
from html import escape
from typing import Protocol

from agentix.sim.timeline import CallSpans, lanes

_LEFT, _PLOT, _RIGHT = 130, 860, 20  # widths in pixels: names, time, margin
_TOP, _TITLE, _AXIS = 40, 26, 34  # heights: legend, title and axis of a panel
_TALL_ROWS = 60  # up to so many rows have names; more are drawn as thin lines
_NUM_TICKS = 10
_CHAR = 7  # about the width of a character of a label
_TEXT = "#1a1a1a"


class Drawable(Protocol):
    """What can be drawn: a simulation's `Timeline`, or what was seen of real calls."""

    @property
    def calls(self) -> Mapping[str, CallSpans]:
        """By any key, in order of arrival."""

    @property
    def end_s(self) -> float:
        """Where the time axis ends."""


def gantt_svg(timelines: Mapping[str, Drawable], *, time_unit: str = "s") -> str:
    """Timelines by title, as one SVG of stacked panels on one time axis.

    A row per program, or several if its calls overlap; a colour per program, the same in every panel; full where a call is
    served, pale where it waits, blank where it is not in an engine (tool gaps). Pointing at a bar tells call and times.
    """
    end_s = max((timeline.end_s for timeline in timelines.values()), default=0.0) or 1.0
    programs = dict.fromkeys(call.program_id for t in timelines.values() for call in t.calls.values())
    colours = {program_id: _colour(index) for index, program_id in enumerate(programs)}
    parts: list[str] = []
    top = _TOP
    for title, timeline in timelines.items():
        panel, top = _panel(title, timeline, colours, top, _PLOT / end_s, time_unit)
        parts.extend(panel)
    width = _LEFT + _PLOT + _RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
            f' font-family="sans-serif" font-size="12" fill="{_TEXT}">',
            '<rect width="100%" height="100%" fill="white"/>',
            *_legend(),
            *parts,
            "</svg>\n",
        ]
    )


def _panel(
    title: str, timeline: Drawable, colours: Mapping[str, str], top: int, scale: float, time_unit: str
) -> tuple[list[str], int]:
    """One run, and where the next panel begins."""
    programs: dict[str, list[CallSpans]] = {}
    for call in timeline.calls.values():
        programs.setdefault(call.program_id, []).append(call)
    rows = [(program_id, n, lane) for program_id, calls in programs.items() for n, lane in enumerate(lanes(calls))]
    height = 22 if len(rows) <= _TALL_ROWS else 6
    parts = [f'<text x="{_LEFT}" y="{top + 16}" font-weight="bold">{escape(title)}</text>']
    top += _TITLE
    parts.extend(_axis(top, top + len(rows) * height, scale, time_unit))
    for program_id, number, lane in rows:
        if number == 0 and height > 12:
            parts.append(f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(_cut(program_id, _LEFT - 8))}</text>')
        for call in lane:
            parts.extend(_bars(call, colours[program_id], top, height, scale))
        top += height
    return parts, top + _AXIS


def _bars(call: CallSpans, colour: str, top: int, height: int, scale: float) -> list[str]:
    """A call: pale where it waits, full where it is served, its name where there is room."""
    name = escape(call.call_id)
    parts = [
        _rect(begin_s, end_s, top, height, scale, f'fill="{colour}" fill-opacity="0.3"', f"{name} waits")
        for begin_s, end_s in call.waits()
    ]
    label = escape(call.call_id.partition("/")[2] or call.call_id)
    for begin_s, end_s in call.served:
        style = f'fill="{colour}" stroke="white" stroke-width="{0.6 if height > 12 else 0}"'
        parts.append(_rect(begin_s, end_s, top, height, scale, style, f"{name} on {escape(call.engine_id)}"))
        if height > 12 and len(label) * _CHAR < (end_s - begin_s) * scale:
            middle = _LEFT + (begin_s + end_s) / 2 * scale
            parts.append(f'<text x="{middle:.1f}" y="{top + 15}" text-anchor="middle">{label}</text>')
    return parts


def _rect(begin_s: float, end_s: float, top: int, height: int, scale: float, style: str, tip: str) -> str:
    place = f'x="{_LEFT + begin_s * scale:.2f}" y="{top + 1}" width="{(end_s - begin_s) * scale:.2f}" height="{height - 2}"'
    return f"<rect {place} {style}><title>{tip}, {begin_s:.6g} to {end_s:.6g} s</title></rect>"


def _axis(top: int, bottom: int, scale: float, time_unit: str) -> list[str]:
    """Vertical lines at round times, with the times below."""
    step_s = tick_step(_PLOT / scale / _NUM_TICKS)
    parts: list[str] = []
    for tick in range(math.floor(_PLOT / scale / step_s * (1 + 1e-9)) + 1):
        x = f"{_LEFT + tick * step_s * scale:.2f}"
        parts.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{bottom + 15}" text-anchor="middle">{tick * step_s:g}</text>')
    parts.append(f'<line x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _PLOT}" y2="{bottom}" stroke="{_TEXT}"/>')
    parts.append(f'<text x="{_LEFT - 8}" y="{bottom + 15}" text-anchor="end">{escape(time_unit)}</text>')
    return parts


def tick_step(at_least: float) -> float:
    """The smallest of …, 0.5, 1, 2, 5, 10, … that is not below `at_least` (above 0)."""
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= at_least * (1 - 1e-9))


def _legend() -> list[str]:
    return [
        f'<rect x="{_LEFT}" y="14" width="24" height="14" fill="#777"/>',
        f'<text x="{_LEFT + 30}" y="25">served</text>',
        f'<rect x="{_LEFT + 90}" y="14" width="24" height="14" fill="#777" fill-opacity="0.3"/>',
        f'<text x="{_LEFT + 120}" y="25">waiting</text>',
        f'<text x="{_LEFT + 190}" y="25">a colour per program; bars carry the names of calls</text>',
    ]


def _colour(index: int) -> str:
    """Colours as unlike as possible for neighbouring indexes, all light enough for dark text (golden angle)."""
    hue, lightness = index * 137.508 % 360 / 360, (0.68, 0.78)[index // 3 % 2]
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, 0.6))


def _cut(text: str, width: int) -> str:
    room = width // _CHAR
    return text if len(text) <= room else text[: room - 1] + "…"
