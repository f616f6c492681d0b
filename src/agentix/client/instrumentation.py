"""Switch the SDK on and off: which attributes of whose classes are wrapped, and how they come back."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agentix.client import backend
from agentix.client.context import never_raising
from agentix.client.forks import forking_create_task, forking_start, forking_submit
from agentix.client.sends import annotating_async_send, annotating_send


@dataclass(slots=True)
class _State:
    """`on` is None until somebody decides: then the first program switches on, with what AGENTIX_URL says."""

    on: bool | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Patch:
    owner: type
    name: str
    own: Any  # what stood in the class itself; None: it was inherited
    wrapper: Any

    def undo(self) -> None:
        """Put back what was there, unless somebody has wrapped our wrapper since: theirs stays, and ours passes on."""
        if vars(self.owner).get(self.name) is self.wrapper:
            if self.own is None:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, self.own)


_state = _State()
_patches: dict[tuple[type, str], _Patch] = {}
_lock = threading.RLock()


def instrument(*, only: str | Iterable[str] | None = None) -> None:
    """Annotate what httpx sends within programs, and follow them into tasks and threads.

    only  base URLs that get the headers; without it those in AGENTIX_URL, and without that every private host

    Calling it again changes `only` and includes what was imported since. The first program calls it, if nobody has.
    """
    urls = (only,) if isinstance(only, str) else only
    with _lock:
        _state.only = backend.configured() if urls is None else backend.normalised(urls)
        _state.on = True
        _wrap_all()


def instrument_unless_told() -> None:
    """What entering a program does: instrument, unless `uninstrument` was called; include what was imported since."""
    if _state.on is None:
        instrument()
    elif _state.on and "uvloop" in sys.modules:
        with _lock:
            _wrap_all()


def uninstrument() -> None:
    """Take everything back. Programs are then told by `headers()` alone, until `instrument()` is called again."""
    with _lock:
        _state.on = False
        for patch in _patches.values():
            patch.undo()
        _patches.clear()


@never_raising
def _wrap_all() -> None:
    for owner, name, wrap in _targets():
        if (owner, name) in _patches:
            continue
        wrapper = wrap(getattr(owner, name))
        _patches[owner, name] = _Patch(owner, name, vars(owner).get(name), wrapper)
        setattr(owner, name, wrapper)


def _targets() -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
    yield asyncio.BaseEventLoop, "create_task", forking_create_task
    yield threading.Thread, "start", forking_start
    yield ThreadPoolExecutor, "submit", forking_submit
    if "uvloop" in sys.modules:  # its loop is not asyncio's
        yield sys.modules["uvloop"].Loop, "create_task", forking_create_task
    for name in ("httpx", "httpx2"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        yield module.Client, "send", lambda original: annotating_send(original, _only)
        yield module.AsyncClient, "send", lambda original: annotating_async_send(original, _only)


def _only() -> tuple[str, ...] | None:
    return _state.only if _state.on else None
