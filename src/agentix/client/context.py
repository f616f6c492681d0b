"""In which program, and in which strand of it, does this code run? And what does its next call say?"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

from agentix.client.dag import Call, Strand
from agentix.client.running import Program
from agentix.wire import CALL_HEADER, PARENT_HEADER, PROGRAM_HEADER, THREAD_HEADER

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("agentix.client")
_warned = threading.Event()


class Place(NamedTuple):
    """A program and a strand of it."""

    program: Program
    strand: Strand


place_var: ContextVar[Place | None] = ContextVar("agentix_place", default=None)


class _Worker(threading.local):
    """What a pool's thread is at: the place that its work was submitted in, and the fork in which it is done."""

    places: tuple[Place | None, Place | None] = (None, None)


_worker = _Worker()


def never_raising(function: Callable[P, T]) -> Callable[P, T | None]:
    """What fails in here must not fail the program: None instead, and one warning in the life of the process."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            if not _warned.is_set():
                _warned.set()
                _log.warning("a call goes on without its program's headers (said once)", exc_info=True)
            return None

    return guarded


def here() -> Place | None:
    """Where this code runs; None outside programs, in what one left behind, and in processes forked within one."""
    return _where(place_var.get())


current = never_raising(here)
"""The same, for code of the host's."""


@never_raising
def fork(context: Context | None = None) -> tuple[Place, Place] | None:
    """What the context (None: the present one) says, and a fork of the place that it means; None outside programs."""
    said = place_var.get() if context is None else context.get(place_var)
    place = _where(said)
    if place is None or said is None:
        return None
    program = place.program
    return said, Place(program, program.dag.fork(place.strand))


def _where(said: Place | None) -> Place | None:
    if said is None or said.program.is_elsewhere:
        return None
    origin, fork = _worker.places
    # Frameworks run a pool's work in a copy of the submitter's context, which names the submitter's strand.
    return fork if fork is not None and origin is said else said


def run_forked(places: tuple[Place, Place], function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run it in this thread, in the second of `places`, which was forked from the first. It is over when this returns."""
    before = _worker.places
    _worker.places = places
    token = place_var.set(places[1])
    try:
        return function(*args, **kwargs)
    finally:
        place_var.reset(token)
        _worker.places = before
        places[1].strand.is_over = _always


def _always() -> bool:
    return True


def headers() -> dict[str, str]:
    """The headers of the next call made here, for clients that are not instrumented; {} outside programs.

    Counts as that call: ask once for each. What comes later here depends on it.
    """
    place = current()
    return {} if place is None else _announced(place) or {}


@never_raising
def _announced(place: Place) -> dict[str, str]:
    call = place.program.dag.begin(place.strand)
    place.program.dag.finish(place.strand, call)
    place.program.note_bare_call()
    return headers_of(place.program, call)


def headers_of(program: Program, call: Call) -> dict[str, str]:
    """A call's headers (docs/wire.md). An empty list of parents says that it has none."""
    return {
        PROGRAM_HEADER: program.id,
        THREAD_HEADER: call.thread_id,
        CALL_HEADER: call.call_id,
        PARENT_HEADER: ",".join(call.parents),
    }
