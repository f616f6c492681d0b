"""How `agentix top` words a program, a column at a time, and all of them in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from agentix.ui.feed import Feed, Program

# A sign beside each word, so that nothing is said by colour alone.
_SIGNS = {"answering": "▶", "sent": "▷", "held": "◷", "paused": "‖", "idle": "·", "ended": "✓"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`text` of a program at a moment on the gateway's clock. Numbers stand to the right."""

    label: str
    text: Callable[[Program, float], str]
    is_number: bool = False
    width: int = 24

    def cell(self, program: Program, now_s: float) -> Text:
        """The text, cut to the width; never read as markup, since clients choose ids."""
        text = Text(self.text(program, now_s), justify="right" if self.is_number else "left", no_wrap=True)
        text.truncate(self.width, overflow="ellipsis")
        return text


def duration(seconds: float) -> str:
    """A duration as people read it: two units at most."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 48 * 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


COLUMNS = (
    Column(label="PROGRAM", text=lambda p, _: f"{p.tenant}/{p.id}" if p.tenant else p.id, width=36),
    Column(label="CLASS", text=lambda p, _: p.program_class, width=16),
    Column(label="STATE", text=lambda p, _: f"{_SIGNS[p.state]} {p.state}", width=12),
    Column(label="LEVEL", text=lambda p, _: "" if p.level is None else str(p.level), is_number=True),
    Column(label="CALLS", text=lambda p, _: str(p.num_calls or ""), is_number=True),
    Column(label="ENGINE", text=lambda p, _: p.engine, width=16),
    Column(label="AGE", text=lambda p, now_s: duration(p.age_s(now_s)), is_number=True),
    Column(label="SERVICE", text=lambda p, _: duration(p.service_s), is_number=True),
    Column(label="WAITING", text=lambda p, now_s: duration(p.waiting_s(now_s)), is_number=True),
    Column(label="DONE", text=lambda p, _: str(p.num_finished), is_number=True),
    Column(label="WHY", text=lambda p, _: p.why, width=60),
)


def summary(feed: Feed, *, num_shown: int, sort: str, words: str) -> str:
    """One line: how many programs in which state, engines, and what is shown of them."""
    states = Counter(program.state for program in feed.programs.values())
    parts = [f"{len(feed.programs)} programs", *(f"{states[state]} {state}" for state in _SIGNS if states[state])]
    if feed.engines:  # which a tenant may not see
        num_healthy = sum(bool(engine["healthy"]) for engine in feed.engines)
        parts.append(f"{num_healthy} of {len(feed.engines)} engines healthy")
    parts.append(f"by {sort}")
    if words:
        parts.append(f"filter {words!r}: {num_shown}")
    return " · ".join(parts)
