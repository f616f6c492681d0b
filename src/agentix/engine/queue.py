"""The engine's waiting queue, in the order of the core's Scheduler."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vllm.v1.core.sched.request_queue import RequestQueue

_Key = tuple[int, float, int, str]


class ProgramQueue(RequestQueue):  # type: ignore[misc]  # vLLM is not typed for strict checking
    """vLLM's RequestQueue, sorted by `key_of(request_id)`; "prepending" means adding, since the key is the place.

    A key may change while the request waits, and so may whether it is held back (`is_held`); `reposition` then takes that
    over. A request stands here once, however often it is added. Adding, removing and moving cost a binary search and a list
    insertion. Requests that are held back wait here like others, but are not given out, and a queue of them alone is false.
    """

    def __init__(self, key_of: Callable[[str], _Key], is_held: Callable[[str], bool] = lambda _: False) -> None:
        self._key_of = key_of
        self._is_held = is_held
        self._order: list[_Key] = []
        self._held: list[_Key] = []  # the places of those that are held back
        self._keys: dict[str, _Key] = {}
        self._requests: dict[str, Any] = {}

    def add_request(self, request: Any) -> None:
        """Insert at the place of the request's key, or move there if it waits here already."""
        key = self._key_of(request.request_id)
        self.remove_requests([request])
        insort(self._held if self._is_held(request.request_id) else self._order, key)
        self._keys[request.request_id] = key
        self._requests[request.request_id] = request

    def peek_request(self) -> Any:
        """The request to be served next. Raises IndexError if none may be."""
        if not self._order:
            raise IndexError("no request waits that is not held back")
        return self._requests[self._order[0][-1]]

    def pop_request(self) -> Any:
        """Take out the request to be served next. Raises IndexError if none may be."""
        request = self.peek_request()
        self.remove_request(request)
        return request

    def prepend_request(self, request: Any) -> None:
        """The same as `add_request`."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """The same as `add_request` for each."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: Any) -> None:
        """Take out one request. Raises KeyError if it does not wait here."""
        key = self._keys.pop(request.request_id)
        place = bisect_left(self._order, key)
        if place < len(self._order) and self._order[place] == key:
            del self._order[place]
        else:
            del self._held[bisect_left(self._held, key)]
        del self._requests[request.request_id]

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Take out those of `requests` that wait here."""
        for request in requests:
            if request.request_id in self._keys:
                self.remove_request(request)

    def reposition(self, request_id: str) -> None:
        """Move the request, if it waits here, to the place of its present key; it may be held back from now on, or let go."""
        request = self._requests.get(request_id)
        if request is not None:
            self.add_request(request)

    def resort(self) -> None:
        """Take over every request's present key."""
        self._keys = {request_id: self._key_of(request_id) for request_id in self._requests}
        self._order, self._held = [], []
        for key in sorted(self._keys.values()):
            (self._held if self._is_held(key[-1]) else self._order).append(key)

    def num_at(self, level: int, *, held: bool = False) -> int:
        """How many requests wait for their turn at the level, or are held back there. O(log n)."""
        keys = self._held if held else self._order
        first, end = ((at, -math.inf, 0, "") for at in (level, level + 1))
        return bisect_left(keys, end) - bisect_left(keys, first)

    def __bool__(self) -> bool:
        return bool(self._order)

    def __len__(self) -> int:
        return len(self._order) + len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._requests[key[-1]] for key in sorted([*self._order, *self._held])])
