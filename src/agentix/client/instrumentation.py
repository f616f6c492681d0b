"""Switch the SDK on and off: which attributes of whose classes are wrapped, and how they come back."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agentix.client import backend
from agentix.client.context import never_raising
from agentix.client.forks import forking_create_task, forking_start, forking_submit
from agentix.client.imports import WhenImported
from agentix.client.sends import annotating_async_send, annotating_request, annotating_send


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


_Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
_state = _State()
_patches: dict[tuple[type, str], _Patch] = {}
_lock = threading.RLock()


def instrument(*, only: str | Iterable[str] | None = None) -> None:
    """Annotate what httpx, httpx2, requests and aiohttp send within programs, and follow programs into tasks and threads.

    only  base URLs that get the headers; without it those in AGENTIX_URL, and without that every private host

    None of these libraries is imported for it: those that are imported later are wrapped then. Calling it again changes
    `only`. The first program calls it, if nobody has.
    """
    urls = (only,) if isinstance(only, str) else only
    with _lock:
        _state.only = backend.configured() if urls is None else backend.normalised(urls)
        _state.on = True
        _later.watch()
        _wrap_all()


def instrument_unless_told() -> None:
    """What entering a program does: instrument, unless `uninstrument` was called."""
    if _state.on is None:
        instrument()


def uninstrument() -> None:
    """Take everything back. Programs are then told by `headers()` alone, until `instrument()` is called again."""
    with _lock:
        _state.on = False
        _later.forget()
        for patch in _patches.values():
            patch.undo()
        _patches.clear()


@never_raising
def _wrap_all() -> None:
    with _lock:
        for owner, name, wrap in _targets() if _state.on else ():
            if (owner, name) in _patches:
                continue
            wrapper = wrap(getattr(owner, name))
            _patches[owner, name] = _Patch(owner, name, vars(owner).get(name), wrapper)
            setattr(owner, name, wrapper)


def _targets() -> Iterator[tuple[type, str, _Wrap]]:
    """Whatever of it is imported, and imported to its end."""
    yield asyncio.BaseEventLoop, "create_task", forking_create_task
    yield threading.Thread, "start", forking_start
    yield ThreadPoolExecutor, "submit", forking_submit
    for module, targets in _LIBRARIES.items():
        for owner, name, wrap in targets:
            found = getattr(sys.modules.get(module), owner, None)
            if found is not None:
                yield found, name, wrap


def _only() -> tuple[str, ...] | None:
    return _state.only if _state.on else None


def _sync(original: Callable[..., Any]) -> Callable[..., Any]:
    return annotating_send(original, _only)


def _async(original: Callable[..., Any]) -> Callable[..., Any]:
    return annotating_async_send(original, _only)


def _session(original: Callable[..., Any]) -> Callable[..., Any]:
    return annotating_request(original, _only)


_LIBRARIES: dict[str, tuple[tuple[str, str, _Wrap], ...]] = {
    "httpx": (("Client", "send", _sync), ("AsyncClient", "send", _async)),
    "httpx2": (("Client", "send", _sync), ("AsyncClient", "send", _async)),
    "requests": (("Session", "send", _sync),),
    "aiohttp": (("ClientSession", "_request", _session),),  # all of its methods go through it
    "uvloop": (("Loop", "create_task", forking_create_task),),  # its loop is not asyncio's
}
_later = WhenImported(_LIBRARIES, _wrap_all)
