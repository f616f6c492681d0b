"""Questions that engines are asked again and again: one that answers late, or never, or nonsense keeps no other waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)


async def keep_asking(whom: Callable[[], Iterable[T]], ask: Callable[[T], Coroutine[Any, Any, None]], period_s: float) -> None:
    """Ask all of `whom()` for ever, each again after `period_s`, or when it has answered if that is later.

    A question that raises has failed, and is asked again all the same: what an engine says must not end the asking.
    """
    asking: set[T] = set()

    async def ask_one(one: T) -> None:
        try:
            await ask(one)
        except Exception:
            logger.exception("a question to an engine has failed")
        finally:
            asking.discard(one)

    async with asyncio.TaskGroup() as group:
        while True:
            for one in tuple(whom()):
                if one not in asking:
                    asking.add(one)
                    group.create_task(ask_one(one))
            await asyncio.sleep(period_s)
