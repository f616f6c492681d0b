"""How much is held, and for whom: bounds on the calls that wait at the gateway, so that nobody's fill all the room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentix.core.errors import InvalidTransition
from agentix.gateway.place import Place


class Held:
    """Calls that are held at all engines together, and the bytes of their bodies.

    At most `max_calls` stand in line, as many again may be asleep (paused, over budget): those that nothing but time or people
    can wake take no place from others. The bodies of all have at most `max_bytes`. A tenant may have no more of each than is
    still free after that, so that others always find room: one alone gets half of it, n that want all they can get
    1/(n+1) each (dynamic thresholds: Choudhury, Hahne, IEEE/ACM Transactions on Networking 1998). Without tenants there is
    nobody to leave room for. Every method takes constant time.
    """

    def __init__(self, max_calls: int, max_bytes: int) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._calls: Counter[tuple[str, bool]] = Counter()  # by tenant, and whether they are asleep
        self._bytes: Counter[str] = Counter()  # by tenant
        self._all_calls: Counter[bool] = Counter()
        self._all_bytes = 0

    def has_room(self, tenant: str, num_bytes: int, *, asleep: bool) -> bool:
        """Whether one more call of the tenant may be held, with a body of so many bytes."""
        free_calls, free_bytes = self._max_calls - self._all_calls[asleep], self._max_bytes - self._all_bytes
        own_calls, own_bytes = (self._calls[tenant, asleep], self._bytes[tenant]) if tenant else (0, 0)
        return own_calls + 1 <= free_calls and own_bytes + num_bytes <= free_bytes

    def add(self, place: Place) -> None:
        """The call is held from now on, or falls asleep, or wakes."""
        self._count(place, 1)

    def remove(self, place: Place) -> None:
        """It is held no longer, or is about to fall asleep, or to wake."""
        self._count(place, -1)

    def _count(self, place: Place, sign: int) -> None:
        asleep = bool(place.asleep)
        self._calls[place.tenant, asleep] += sign
        self._bytes[place.tenant] += sign * place.num_bytes
        self._all_calls[asleep] += sign
        self._all_bytes += sign * place.num_bytes

    def validate(self, places: Iterable[Place]) -> None:
        """Check that these calls are what is counted; raises InvalidTransition if not."""
        counted = Held(self._max_calls, self._max_bytes)
        for place in places:
            counted.add(place)
        if (counted._calls, counted._bytes) != (self._calls, self._bytes):
            raise InvalidTransition(f"held calls have been miscounted: {self._calls}, {self._bytes}")
        if (counted._all_calls, counted._all_bytes) != (self._all_calls, self._all_bytes):
            raise InvalidTransition(f"held calls have been miscounted: {self._all_calls}, {self._all_bytes}")
