"""What the process table learns of programs that are over, beside those that are under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from agentix.core.events import TotalsLearnt
from agentix.core.history import MAX_TOTALS, Histories, ServiceHistory, check_learnt
from agentix.core.program import ProgramRow


class Learning:
    """Keeps `histories`, and which of the table's `rows` are of which class. O(1) per event but for one in many.

    A history is worked out anew once one in sixteen of its totals is new, and looks at no more than MAX_TOTALS programs under
    way then; so an end costs the same however many programs live.
    """

    def __init__(self, rows: Mapping[str, ProgramRow]) -> None:
        self.histories = Histories()
        self._rows = rows
        self._by_class: dict[str, dict[str, ProgramRow]] = {}

    def classify(self, row: ProgramRow, program_class: str) -> None:
        """The program is of this class from now on, and goes by its history."""
        self._forget(row)
        row.program_class = program_class
        row.history = self.histories.of(program_class)
        self._by_class.setdefault(program_class, {})[row.program_id] = row

    def over(self, row: ProgramRow) -> None:
        """The program is over, and what it needed tells of others of its class, and of all."""
        self._forget(row)
        if row.num_over:
            everything = self.histories.everything
            for history, alike in ((everything, self._rows), (row.history, self._by_class.get(row.program_class, {}))):
                if history is not None:
                    history.add(row.service_s, row.context_tokens)
                    _look(history, alike)

    def learnt(self, event: TotalsLearnt) -> None:
        """What was learnt elsewhere, or earlier. Raises InvalidTransition for totals that no programs can have had."""
        check_learnt(event)
        name = event.program_class
        history = self.histories.everything if name is None else self.histories.of(name)
        if history.recall(event.totals_s, event.contexts):
            _look(history, self._rows if name is None else self._by_class.get(name, {}))

    def _forget(self, row: ProgramRow) -> None:
        alike = self._by_class.get(row.program_class, {})
        if alike.pop(row.program_id, None) is not None and not alike:
            del self._by_class[row.program_class]


def _look(history: ServiceHistory, alike: Mapping[str, ProgramRow]) -> None:
    """Have the history take in what is new, if that is enough to matter, beside the programs under way."""
    if history.is_stale:
        history.learn(row.attained_s for row in _some(alike.values(), len(alike)))


def _some(rows: Iterable[ProgramRow], num_rows: int) -> Iterable[ProgramRow]:
    """Programs old and new, at most MAX_TOTALS of them."""
    return islice(rows, 0, None, -(-num_rows // MAX_TOTALS) or 1)
