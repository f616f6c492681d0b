"""Engines are asked again and again, whatever one of them does."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from agentix.gateway.rounds import keep_asking


async def test_neither_silence_nor_nonsense_of_one_keeps_the_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    asked: Counter[str] = Counter()

    async def ask(name: str) -> None:
        asked[name] += 1
        if name == "silent":
            await asyncio.Event().wait()
        if name == "odd":
            raise TypeError("unhashable type: 'list'")

    names = ["silent", "odd", "well"]
    with caplog.at_level(logging.CRITICAL):
        task = asyncio.create_task(keep_asking(lambda: names, ask, 0.0))
        while asked["well"] < 5:
            await asyncio.sleep(0)
        names.append("new")
        while asked["new"] < 5:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert asked["silent"] == 1, "it is not asked again before it has answered"
    assert asked["odd"] >= 5


async def test_what_is_asked_no_longer_is_not_asked() -> None:
    asked: Counter[str] = Counter()
    names = {"a", "b"}

    async def ask(name: str) -> None:
        asked[name] += 1
        names.discard("b")

    task = asyncio.create_task(keep_asking(lambda: names, ask, 0.0))
    while asked["a"] < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asked["b"] <= 1
