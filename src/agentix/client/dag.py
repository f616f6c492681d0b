"""Which calls does a call depend on? The calls of one program as a graph, from who forked whom and who is over.

A strand is a chain of calls: the program's first one, and one for each asyncio task and thread that was forked from another.
Its frontier is the calls that happened before its next call and that no call it knows of came after. The rules:

- a call's parents are its strand's frontier; once it is answered it takes their place;
- a fork begins with the frontier of the strand it was forked from;
- a strand that is over joins the strand it was forked from, at that one's next call or fork: the calls that it ended with
  replace those that it began with. Whether somebody awaited it cannot be seen and does not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

MAX_PARENTS = 512  # in one header: servers refuse headers of some 8 KiB; call ids are short numbers


class Call(NamedTuple):
    """A call as it is announced: its id, its strand's id, and the calls it depends on (none: a root call)."""

    call_id: str
    thread_id: str
    parents: tuple[str, ...]


def _never() -> bool:
    return False


@dataclass(slots=True, eq=False)
class Strand:
    """One chain of calls.

    base      the frontier it began with
    is_over   whether its task or thread has ended; the first strand's never has
    children  strands forked from it that made calls and have not joined yet
    """

    parent: Strand | None = None
    base: tuple[str, ...] = ()
    frontier: tuple[str, ...] = ()
    thread_id: str = ""
    is_over: Callable[[], bool] = _never
    known: bool = False
    joined: bool = False
    children: list[Strand] = field(default_factory=list)


class Dag:
    """The graph of one program. Safe to use from several threads; each strand belongs to one task or thread."""

    def __init__(self) -> None:
        self.first = Strand(thread_id="main", known=True)
        self._lock = Lock()
        self._call_ids = itertools.count(1)
        self._thread_ids = itertools.count(1)

    def fork(self, strand: Strand) -> Strand:
        """A strand that goes on from what has happened in this one."""
        with self._lock:
            _join_finished(strand)
            return Strand(parent=strand, base=strand.frontier, frontier=strand.frontier)

    def begin(self, strand: Strand) -> Call:
        """The strand's next call. Nothing depends on it until `finish`: a call that failed is followed by nothing."""
        with self._lock:
            _join_finished(strand)
            _make_known(strand)
            strand.thread_id = strand.thread_id or f"t{next(self._thread_ids)}"
            parents = strand.frontier[-MAX_PARENTS:]
            return Call(call_id=str(next(self._call_ids)), thread_id=strand.thread_id, parents=parents)

    def finish(self, strand: Strand, call: Call) -> None:
        """The call was answered: it comes after its parents. Calls that ran beside it in the same strand stay beside it."""
        with self._lock:
            beside = () if strand.frontier == call.parents else _without(strand.frontier, set(call.parents))
            strand.frontier = (*beside, call.call_id)


def _join_finished(strand: Strand) -> None:
    running = []
    for child in strand.children:
        if not child.is_over():
            running.append(child)
            continue
        _join_finished(child)
        replaced = set(child.base) - set(child.frontier)
        gained = _without(child.frontier, {*child.base, *strand.frontier})
        strand.frontier = _without(strand.frontier, replaced) + gained
        for orphan in child.children:  # what it left running joins its parent instead
            orphan.parent = strand
        running += child.children
        child.children = []
        child.joined = True
    strand.children = running


def _make_known(strand: Strand) -> None:
    """Enter it, and those it was forked from, where they will join: only strands that lead to a call are kept."""
    while not strand.known and strand.parent is not None:
        parent = strand.parent
        while parent.joined and parent.parent is not None:
            parent = parent.parent
        strand.parent = parent
        strand.known = True
        parent.children.append(strand)
        strand = parent


def _without(calls: tuple[str, ...], gone: set[str]) -> tuple[str, ...]:
    return tuple(c for c in calls if c not in gone)
