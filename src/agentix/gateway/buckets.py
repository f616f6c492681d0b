"""What a budget is counted with: a bucket that refills, and a window that slides. Pure: `now` is an argument, in seconds."""

from __future__ import annotations

import math
from collections import deque

_MINUTE_S = 60.0


class Bucket:
    """So many a minute: a bucket that holds one minute's worth, is full at first and refills evenly.

    Its state is one moment, that at which it is full again (the virtual-scheduling form of the leaky bucket, ITU-T I.371),
    so it neither drifts nor has to be brought up to date. At most `num_per_minute` x (1 + t / 60) can be taken in any t
    seconds by who takes only what is ready. It may be overdrawn; the debt is paid off before anything is ready again.
    """

    def __init__(self, num_per_minute: float) -> None:
        self.num_per_minute = num_per_minute
        self._full_at_s = -math.inf

    def resized(self, num_per_minute: float) -> Bucket:
        """One that holds so many, and of which the same share is taken."""
        other = Bucket(num_per_minute)
        other._full_at_s = self._full_at_s
        return other

    def ready_at(self, num: float, now: float) -> float:
        """The moment from which `num` can be taken, if nobody takes any before; `now` or earlier: at once."""
        return max(self._full_at_s, now) - self._refill_s(self.num_per_minute - num)

    def used(self, now: float) -> float:
        """How much of it is taken, from 0 (full) to 1 (empty), or more (in debt)."""
        return max(0.0, self._full_at_s - now) / _MINUTE_S

    def take(self, num: float, now: float) -> None:
        """Take so many, whether they are there or not. Less than none: give back."""
        self._full_at_s = max(self._full_at_s, now) + self._refill_s(num)

    def _refill_s(self, num: float) -> float:
        """How long it takes until so many have flowed back."""
        return num * _MINUTE_S / self.num_per_minute


class Window:
    """A sum over the last `length_s` seconds, in slots of a sixtieth: what is added counts for that long, or one slot longer.

    Takes constant memory, however much is added, and O(slots) for a question.
    """

    NUM_SLOTS = 60

    def __init__(self, length_s: float) -> None:
        self._slot_s = length_s / self.NUM_SLOTS
        self._slots: deque[tuple[int, float]] = deque()  # (number of the slot, sum in it), oldest first

    def add(self, amount: float, now: float) -> None:
        """Count this from now on."""
        self._forget(now)
        slot = self._slot(now)
        if self._slots and self._slots[-1][0] == slot:
            amount += self._slots.pop()[1]
        self._slots.append((slot, amount))

    def total(self, now: float) -> float:
        """The sum."""
        self._forget(now)
        return math.fsum(amount for _, amount in self._slots)

    def below_at(self, limit: float, now: float) -> float:
        """The moment from which the sum is below `limit` (> 0), if nothing is added; `now`: at once."""
        rest, moment_s = self.total(now), now
        for slot, amount in self._slots:
            if rest < limit:
                break
            rest, moment_s = rest - amount, self._expiry(slot)
        return moment_s

    def _slot(self, now: float) -> int:
        return math.floor(now / self._slot_s)

    def _expiry(self, slot: int) -> float:
        """The first moment at which all that came in the slot is older than the window."""
        return (slot + 1 + self.NUM_SLOTS) * self._slot_s

    def _forget(self, now: float) -> None:
        while self._slots and self._expiry(self._slots[0][0]) <= now:
            self._slots.popleft()
