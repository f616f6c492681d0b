"""Figures by a label whose values others choose: a bounded number of time series, whatever they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from agentix.gateway.identity.recent import Recent

OTHER = "other"


class Addable(Protocol):
    """Figures of which two can become one."""

    def add(self, other: Self) -> None:
        """Take in all that the other ones have counted."""


F = TypeVar("F", bound=Addable)


class Labelled(Generic[F]):
    """Figures by label. Every value would be a time series for ever, so at most `max_labels` have figures of their own.

    Those are the ones seen last; what was counted for the others is in `other`, and nothing is lost from the sum of all.
    Every method takes constant time.
    """

    def __init__(self, make: Callable[[], F], max_labels: int) -> None:
        self._make = make
        self._max_labels = max_labels
        self._own: Recent[str, F] = Recent(max_labels)
        self._other = make()

    def of(self, label: str) -> F:
        """The figures of a label; it is now the one seen last."""
        if label == OTHER:
            return self._other
        if label not in self._own and len(self._own) == self._max_labels:
            oldest, figures = next(iter(self._own.items()))
            self._own.pop(oldest)
            self._other.add(figures)
        return self._own.setdefault(label, self._make)

    def shown(self, label: str) -> str:
        """The label as it is shown: itself, or `other`."""
        return label if label in self._own else OTHER

    def figures(self) -> Iterator[tuple[str, F]]:
        """Figures by label as it is shown, `other` last."""
        yield from sorted(self._own.items())
        yield OTHER, self._other
