"""Where the time of programs went, from the moments of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

GAP, LAG, FIRST, ANSWER = "tool gaps", "client late", "until the first token", "answering"
PARTS = (GAP, LAG, FIRST, ANSWER)

Calls = Sequence[Mapping[str, Any]]
"""Calls of one program, as a result of `agentix bench` has them."""


def shares_of_time(programs: Iterable[tuple[float, Calls]]) -> dict[str, float]:
    """Share of each part in the response times of programs that ended well, as (arrival, calls); {} if there is no time.

    What counts is a program's critical path: the call that ended last, then of its parents the one that ended last, and so on,
    so that the parts of a program add up to its response time (jct, docs/metrics.md) however many calls ran beside each other:

    tool gaps              r_c - e of that parent: tools, people
    client late            s_c - r_c: the load generator itself
    until the first token  f_c - s_c: waiting and prefill, which a client cannot tell apart
    answering              e_c - f_c; without a first token all of e_c - s_c
    """
    totals = dict.fromkeys(PARTS, 0.0)
    for arrival_s, calls in programs:
        for part, duration_s in _path(arrival_s, {call["call_id"]: call for call in calls}):
            totals[part] += duration_s
    whole_s = sum(totals.values())
    return {part: total / whole_s for part, total in totals.items()} if whole_s > 0 else {}


def _path(arrival_s: float, calls: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, float]]:
    call = max(calls.values(), key=lambda c: c["end_s"], default=None)
    while call is not None:
        parents = [calls[parent] for parent in call["parents"]]
        before = max(parents, key=lambda c: c["end_s"], default=None)
        ready_s, sent_s, first_s, end_s = (call[name] for name in ("ready_s", "sent_s", "first_token_s", "end_s"))
        yield GAP, ready_s - (arrival_s if before is None else before["end_s"])
        yield LAG, sent_s - ready_s
        yield FIRST, 0.0 if first_s is None else first_s - sent_s
        yield ANSWER, end_s - (sent_s if first_s is None else first_s)
        call = before
