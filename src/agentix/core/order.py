"""The calls of a queue in order, best first: those that run, those that wait for their turn, and those that are held back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter

from agentix.core.entry import Key
from agentix.core.errors import InvalidTransition
from agentix.core.sorted_keys import SortedKeys


@dataclass(slots=True)
class Order:
    """Sorted keys, of all and of each kind, so that each is found without a look at the others, however many.

    Putting, taking and moving cost what they do in `SortedKeys`; walking, O(1) for each call that is asked for. The order must
    not change during a walk.
    """

    _all: SortedKeys = field(default_factory=SortedKeys)
    _running: SortedKeys = field(default_factory=SortedKeys)
    _waiting: SortedKeys = field(default_factory=SortedKeys)
    _held: SortedKeys = field(default_factory=SortedKeys)

    def put(self, key: Key, *, runs: bool, is_held: bool) -> None:
        """A call stands here from now on; one that runs is not held back."""
        self._all.add(key)
        (self._running if runs else self._held if is_held else self._waiting).add(key)

    def take(self, key: Key) -> None:
        """The call leaves its place."""
        self._all.discard(key)
        for keys in (self._waiting, self._running, self._held):
            if keys.discard(key):
                return

    def rebuild(self, keys: Iterable[Key], running: Set[str], held: Set[str]) -> None:
        """All places anew, of calls that run, are held back, or are neither. O(n log n)."""
        in_order = sorted(keys)
        kinds: tuple[list[Key], list[Key], list[Key]] = ([], [], [])
        for key in in_order:
            kinds[0 if key[-1] in running else 1 if key[-1] in held else 2].append(key)
        self._all = SortedKeys(in_order)
        self._running, self._held, self._waiting = map(SortedKeys, kinds)

    def position(self, key: Key) -> int:
        """How many calls stand before the key."""
        return self._all.num_before(key)

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
