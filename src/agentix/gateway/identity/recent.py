"""A dict that forgets: at most so many items, those that were not used for longest go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Items by key, at most `max_items` of them. Looking one up counts as using it; every operation takes constant time."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def __setitem__(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._max_items:
            self._items.popitem(last=False)

    def get(self, key: K) -> V | None:
        """The item, or None."""
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """The item, made if it is not there."""
        value = self.get(key)
        if value is None:
            value = self[key] = make()
        return value

    def pop(self, key: K) -> V | None:
        """Take the item out; None if it is not there."""
        return self._items.pop(key, None)

    def items(self) -> ItemsView[K, V]:
        """All items, the one to be forgotten next first."""
        return self._items.items()
