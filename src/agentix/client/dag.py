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
from collections.abc import Callable, Collection
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
            if strand.children:
                _join_finished(strand)
            return Strand(parent=strand, base=strand.frontier, frontier=strand.frontier)

    def begin(self, strand: Strand) -> Call:
        """The strand's next call. Nothing depends on it until `finish`: a call that failed is followed by nothing."""
        with self._lock:
            if strand.children:
                _join_finished(strand)
            if not strand.known:
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
    """Those that are over join; those that run on stay, and what the former left running."""
    over: list[Strand] = []
    running: list[Strand] = []
    for child in strand.children:
        (over if child.is_over() else running).append(child)
    if len(over) == 1 and over[0].base is strand.frontier:  # one fork after the other: where it ended is where we are
        (child,) = over
        strand.frontier = _close(child, strand, running)
    elif over:
        strand.frontier = _merged(strand, over, running)
    strand.children = running


def _close(child: Strand, strand: Strand, running: list[Strand]) -> tuple[str, ...]:
    """The frontier with which the child, which is over, joins the strand. What it left running joins the strand instead."""
    if child.children:
        _join_finished(child)
        for orphan in child.children:
            orphan.parent = strand
        running += child.children
        child.children = []
    child.joined = True
    return child.frontier


def _merged(strand: Strand, over: list[Strand], running: list[Strand]) -> tuple[str, ...]:
    """The strand's frontier when all of these have joined it.

    Linear in their frontiers: those that were forked side by side share the frontier that they began with.
    """
    replaced: set[str] = set()
    gained: dict[str, None] = {}
    base: tuple[str, ...] = ()
    began = kept = frozenset[str]()  # the base, and what of it no child with this base came after
    for child in over:
        frontier = _close(child, strand, running)
        if child.base is not base:
            replaced |= began - kept
            base, began = child.base, frozenset(child.base)
            kept = began
        kept = kept.intersection(frontier)
        gained.update(dict.fromkeys(_without(frontier, began)))
    replaced |= began - kept
    return tuple(dict.fromkeys(_without(strand.frontier, replaced)) | gained)


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


def _without(calls: tuple[str, ...], gone: Collection[str]) -> tuple[str, ...]:
    return tuple(c for c in calls if c not in gone)
