"""The clock of a run. Injected, so that tests decide how time passes."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What time is it, and wake me later? Seconds, monotonic, origin unspecified."""

    def now(self) -> float:
        """Seconds since some fixed moment."""

    async def sleep(self, duration_s: float) -> None:
        """Return once `duration_s` (> 0) has passed."""


class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Seconds, to the clock's full resolution."""
        return time.perf_counter()

    async def sleep(self, duration_s: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(duration_s)
