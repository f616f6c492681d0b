"""The calls of a queue in order, best first, and among them those that run."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from operator import itemgetter

from agentix.core.entry import Key
from agentix.core.errors import InvalidTransition


@dataclass(slots=True)
class Order:
    """Two sorted lists of keys, all of them and those of running calls, so that who waits is found without a look at who runs.

    Putting and taking cost O(log n), list insertion aside. Invariant: both lists hold the same objects, the second in the
    order of the first.
    """

    _all: list[Key] = field(default_factory=list)
    _running: list[Key] = field(default_factory=list)

    def put(self, key: Key, *, runs: bool) -> None:
        """A call stands here from now on."""
        insort(self._all, key)
        if runs:
            insort(self._running, key)

    def take(self, key: Key, *, runs: bool) -> None:
        """The call leaves its place. `runs` as it was put."""
        self._all.pop(bisect_left(self._all, key))
        if runs:
            self._running.pop(bisect_left(self._running, key))

    def rebuild(self, keys: Iterable[Key], running: Set[str]) -> None:
        """All places anew. O(n log n)."""
        self._all = sorted(keys)
        self._running = [key for key in self._all if key[-1] in running]

    def position(self, key: Key) -> int:
        """How many calls stand before the key. O(log n)."""
        return bisect_left(self._all, key)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[str]:
        """Every call, best first."""
        return map(itemgetter(-1), self._all)

    def waiting(self) -> Iterator[str]:
        """The calls that do not run, best first, each found in O(log n). The order must not change meanwhile."""
        num_waiting = num_running = 0  # that stand before the place reached
        while num_waiting + num_running < len(self._all):
            num_running = self._first_apart(num_running, num_waiting)
            if num_waiting + num_running < len(self._all):
                yield self._all[num_waiting + num_running][-1]
                num_waiting += 1

    def running_worst_first(self) -> Iterator[str]:
        """The calls that run. The order must not change meanwhile."""
        return map(itemgetter(-1), reversed(self._running))

    def _first_apart(self, start: int, shift: int) -> int:
        """How many running calls stand before the next that waits: so far the lists agree, shifted by those that wait.

        Binary search by identity, so that no key is touched.
        """
        everybody, running, end = self._all, self._running, len(self._running)
        while start < end:
            middle = (start + end) // 2
            if everybody[middle + shift] is running[middle]:
                start = middle + 1
            else:
                end = middle
        return start

    def validate(self, keys: Iterable[Key], running: Set[str]) -> None:
        """Check that exactly these stand here; raises InvalidTransition."""
        if self._all != sorted(keys):
            raise InvalidTransition("the order and the entries differ")
        expected = [key for key in self._all if key[-1] in running]
        if len(expected) != len(self._running) or not all(a is b for a, b in zip(expected, self._running, strict=True)):
            raise InvalidTransition("the order and the running calls differ")
