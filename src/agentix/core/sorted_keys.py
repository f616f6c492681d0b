"""A sorted list of keys that stays quick when it is long."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import chain

from agentix.core.entry import Key

_MOST_KEYS = 1024  # of a block; one that has more is halved


class SortedKeys:
    """Keys in ascending order, in blocks, so that putting one in or taking one out moves no more than a block of them.

    Both cost O(log n + block), walking O(1) for each key that is asked for. The keys must not change during a walk.
    """

    __slots__ = ("_blocks", "_lasts", "_num_keys")
    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(self, ascending: Iterable[Key] = ()) -> None:
        keys, size = list(ascending), _MOST_KEYS // 2
        self._blocks = [keys[i : i + size] for i in range(0, len(keys), size)]
        self._lasts = [block[-1] for block in self._blocks]  # of each block
        self._num_keys = len(keys)

    def add(self, key: Key) -> None:
        """Put the key in."""
        self._num_keys += 1
        if not self._blocks:
            self._blocks, self._lasts = [[key]], [key]
            return
        place = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        block = self._blocks[place]
        insort(block, key)
        if len(block) > _MOST_KEYS:
            half = len(block) // 2
            self._blocks.insert(place + 1, block[half:])
            self._lasts.insert(place + 1, block[-1])
            del block[half:]
        self._lasts[place] = block[-1]

    def discard(self, key: Key) -> bool:
        """Take the key out; returns whether it was there."""
        place = bisect_left(self._lasts, key)
        if place == len(self._lasts):
            return False
        block = self._blocks[place]
        i = bisect_left(block, key)
        if block[i] != key:
            return False
        self._num_keys -= 1
        del block[i]
        if block:
            self._lasts[place] = block[-1]
        else:
            del self._blocks[place], self._lasts[place]
        return True

    def num_before(self, key: Key) -> int:
        """How many keys are less. O(log n + blocks)."""
        place = bisect_left(self._lasts, key)
        if place == len(self._lasts):
            return self._num_keys
        return sum(map(len, self._blocks[:place])) + bisect_left(self._blocks[place], key)

    def __len__(self) -> int:
        return self._num_keys

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._blocks)

    def __reversed__(self) -> Iterator[Key]:
        return chain.from_iterable(map(reversed, reversed(self._blocks)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedKeys) and len(self) == len(other) and list(self) == list(other)
