"""What is learnt of programs that are over, as text: a line of JSON for each class, and one for all programs (class null)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agentix.core.events import TotalsLearnt
from agentix.core.history import Histories, ServiceHistory, check_learnt

MAX_KEPT = 256  # classes, those used last; a line has 10 KiB at the most
_SLICE = 8  # lines written before calls get their turn: a millisecond or two
_NAME = "totals_of"


def totals_line(program_class: str | None, history: ServiceHistory) -> str:
    """The line of a class. Totals are rounded to four digits: they are a sample, and nobody's account."""
    totals_s = [float(f"{total_s:.4g}") for total_s in history.totals_s]
    kept = {_NAME: program_class, "totals_s": totals_s, "contexts": list(history.contexts)}
    return json.dumps(kept, separators=(",", ":"))


def read_totals(said: Mapping[str, Any], now: float) -> TotalsLearnt:
    """What a line said. Raises KeyError, TypeError, ValueError or InvalidTransition for what is no such line."""
    program_class, totals_s, contexts = said[_NAME], said["totals_s"], said["contexts"]
    if not isinstance(program_class, str | None) or not isinstance(totals_s, list) or not isinstance(contexts, list):
        raise TypeError(f"{_NAME} is text or null, totals_s and contexts are lists")
    if not all(type(figure) in {int, float} for figure in totals_s) or not all(type(figure) is int for figure in contexts):
        raise TypeError("totals_s are numbers, contexts whole numbers")
    totals_s, contexts = tuple(map(float, totals_s)), tuple(contexts)
    learnt = TotalsLearnt(now=now, program_class=program_class, totals_s=totals_s, contexts=contexts)
    check_learnt(learnt)
    return learnt


class TotalsLines:
    """The lines of one table's histories. A line is written anew only if its class has learnt something since."""

    def __init__(self) -> None:
        self._lines: dict[str | None, tuple[ServiceHistory, int, str]] = {}

    async def of(self, histories: Histories) -> list[str]:
        """That of all programs, then those of the MAX_KEPT classes that were used last, by name; none for what is empty."""
        used_last = sorted(list(histories.by_class.items())[-MAX_KEPT:])
        kept = [(name, h) for name, h in ((None, histories.everything), *used_last) if h.totals_s]
        lines: dict[str | None, tuple[ServiceHistory, int, str]] = {}
        num_written = 0
        for name, history in kept:
            known = self._lines.get(name)
            if known is None or known[0] is not history or known[1] != history.num_added:
                known = history, history.num_added, totals_line(name, history)
                num_written += 1
                if num_written % _SLICE == 0:
                    await asyncio.sleep(0)
            lines[name] = known
        self._lines = lines
        return [line for _, _, line in lines.values()]
