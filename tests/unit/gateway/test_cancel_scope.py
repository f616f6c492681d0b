"""Work that others break off: it ends where it waits, and a cancellation that was not theirs goes on."""

from __future__ import annotations

import asyncio

import pytest

from agentix.gateway.cancel_scope import CancelScope


class Work:
    """A task that waits for ever in two scopes, one in the other, and writes down which of them it left and how."""

    def __init__(self) -> None:
        self.outer, self.inner = CancelScope(), CancelScope()
        self.left: list[str] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> int:
        with self.outer:
            with self.inner:
                try:
                    await asyncio.Event().wait()
                finally:
                    self.left.append("wait")
            self.left.append("inner")
            await asyncio.sleep(0)
        self.left.append("outer")
        await asyncio.sleep(0)  # raises if anything is left of a cancellation
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()


async def begun() -> Work:
    work = Work()
    await asyncio.sleep(0)
    return work


async def test_what_is_broken_off_is_over_and_what_follows_goes_on() -> None:
    work = await begun()
    work.inner.cancel()
    work.inner.cancel()
    assert await work.task == 0
    assert work.left == ["wait", "inner", "outer"]
    assert (work.inner.cancelled_caught, work.outer.cancel_called) == (True, False)


async def test_the_scope_around_it_ends_both() -> None:
    work = await begun()
    work.outer.cancel()
    assert await work.task == 0
    assert work.left == ["wait", "outer"]
    assert (work.inner.cancelled_caught, work.outer.cancelled_caught) == (False, True)


async def test_of_two_that_are_broken_off_at_once_the_outer_one_counts() -> None:
    work = await begun()
    work.inner.cancel()
    work.outer.cancel()
    assert await work.task == 0
    assert work.left == ["wait", "outer"]
    assert (work.inner.cancelled_caught, work.outer.cancelled_caught) == (False, True)


@pytest.mark.parametrize("also", ["nobody", "inner", "outer"])
async def test_a_task_that_is_cancelled_itself_stays_cancelled(also: str) -> None:
    work = await begun()
    if also != "nobody":
        getattr(work, also).cancel()
    work.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work.task
    assert work.left == ["wait"]
    assert not work.inner.cancelled_caught
    assert not work.outer.cancelled_caught


async def test_outside_of_its_block_nothing_is_broken_off() -> None:
    scope = CancelScope()
    scope.cancel()
    with scope:
        await asyncio.sleep(0)
    scope.cancel()
    await asyncio.sleep(0)
    assert (scope.cancel_called, scope.cancelled_caught) == (False, False)


async def test_an_error_of_the_work_is_not_hidden() -> None:
    with pytest.raises(KeyError), CancelScope():
        raise KeyError
