"""The calls of a queue in order, best first: those that run, those that wait for their turn, and those that are held back."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter

from agentix.core.entry import Key
from agentix.core.errors import InvalidTransition


@dataclass(slots=True)
class Order:
    """Sorted lists of keys, of all and of each kind, so that each is found without a look at the others, however many.

    Putting, taking and moving cost O(log n), list insertion aside; walking, O(1) for each call that is asked for. The order
    must not change during a walk.
    """

    _all: list[Key] = field(default_factory=list)
    _running: list[Key] = field(default_factory=list)
    _waiting: list[Key] = field(default_factory=list)
    _held: list[Key] = field(default_factory=list)

    def put(self, key: Key, *, runs: bool, is_held: bool) -> None:
        """A call stands here from now on; one that runs is not held back."""
        insort(self._all, key)
        insort(self._running if runs else self._held if is_held else self._waiting, key)

    def take(self, key: Key) -> None:
        """The call leaves its place."""
        del self._all[bisect_left(self._all, key)]
        for keys in (self._running, self._waiting, self._held):
            place = bisect_left(keys, key)
            if place < len(keys) and keys[place] == key:
                del keys[place]
                return

    def rebuild(self, keys: Iterable[Key], running: Set[str], held: Set[str]) -> None:
        """All places anew, of calls that run, are held back, or are neither. O(n log n)."""
        self._all, self._running, self._waiting, self._held = sorted(keys), [], [], []
        for key in self._all:
            kind = self._running if key[-1] in running else self._held if key[-1] in held else self._waiting
            kind.append(key)

    def position(self, key: Key) -> int:
        """How many calls stand before the key. O(log n)."""
        return bisect_left(self._all, key)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[str]:
        """Every call, best first."""
        return map(itemgetter(-1), self._all)

    def passing(self) -> Iterator[str]:
        """Every call that is not held back, best first."""
        return map(itemgetter(-1), merge(self._running, self._waiting) if self._held else self._all)

    def waiting(self) -> Iterator[str]:
        """The calls that do not run, best first."""
        return map(itemgetter(-1), merge(self._waiting, self._held))

    def contenders(self) -> Iterator[str]:
        """The calls that neither run nor are held back, best first."""
        return map(itemgetter(-1), self._waiting)

    def running_worst_first(self) -> Iterator[str]:
        """The calls that run."""
        return map(itemgetter(-1), reversed(self._running))

    def validate(self, keys: Iterable[Key], running: Set[str], held: Set[str]) -> None:
        """Check that exactly these stand here; raises InvalidTransition."""
        expected = Order()
        expected.rebuild(keys, running, held)
        if self != expected:
            raise InvalidTransition("the order and the entries differ")
