"""What the gateway runs on: the event loop, and a collector that leaves alone what is there for good."""

from __future__ import annotations

import asyncio
import builtins
import gc
from typing import Any

import pytest
import uvloop

from agentix.gateway.server import make_loop, relieve_collector


def test_the_loop_is_uvloops_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = make_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()
    load = builtins.__import__

    def lacks_uvloop(name: str, *args: Any) -> Any:
        if name == "uvloop":
            raise ImportError(name)
        return load(name, *args)

    monkeypatch.setattr(builtins, "__import__", lacks_uvloop)
    loop = make_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()


def test_what_is_there_once_everything_is_up_is_not_looked_at_again() -> None:
    before = gc.get_threshold()
    mine: list[Any] = []
    mine.append(mine)
    try:
        relieve_collector()
        assert gc.get_threshold() == (10_000, 10, 10)
        assert gc.get_freeze_count() > 10_000, "the modules alone are more"
        assert not any(found is mine for found in gc.get_objects())
        later: list[Any] = []
        later.append(later)
        assert any(found is later for found in gc.get_objects()), "what is made after that is"
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
