"""Work that others may break off: as `asyncio.timeout`, but at somebody's word in place of a moment."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class CancelScope:
    """A block of one task's work. `cancel` ends it at what it waits for; it is then over without an error.

    A cancellation that comes from elsewhere as well goes before, and passes through. Before the block and after it `cancel`
    does nothing. `cancel_called`: somebody has broken it off; `cancelled_caught`: and that is how it came to its end.
    """

    __slots__ = ("_num_before", "_task", "cancel_called", "cancelled_caught")

    def __init__(self) -> None:
        self.cancel_called = False
        self.cancelled_caught = False
        self._task: asyncio.Task[object] | None = None
        self._num_before = 0

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None  # noqa: S101 - whoever awaits is a task
        self._num_before = self._task.cancelling()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        task, self._task = self._task, None
        if self.cancel_called and task is not None and task.uncancel() <= self._num_before:
            self.cancelled_caught = kind is asyncio.CancelledError
        return self.cancelled_caught

    def cancel(self) -> None:
        """Break the work off."""
        if self._task is not None and not self.cancel_called:
            self.cancel_called = True
            self._task.cancel()
