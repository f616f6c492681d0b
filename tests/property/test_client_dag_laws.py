"""Random fork-join programs: a call's parents are the calls that ended the parts before it, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import agentix
from agentix.client import backend, instrumentation

# A program is a sequence of steps; a step is a call (None) or programs that run beside one another.
PROGRAMS = st.recursive(
    st.lists(st.none(), max_size=3),
    lambda inner: st.lists(st.none() | st.lists(inner, min_size=1, max_size=3), max_size=4),
    max_leaves=12,
)


def expected(
    steps: list[Any], before: frozenset[int], numbers: list[int], parents: dict[int, frozenset[int]]
) -> frozenset[int]:
    """Numbers the calls in writing order and returns those that nothing has come after."""
    for step in steps:
        if step is None:
            parents[len(numbers)] = before
            before = frozenset([len(numbers)])
            numbers.append(0)
            continue
        ends = [expected(branch, before, numbers, parents) for branch in step]
        # A branch without calls hands on what it began with, which the others have come after.
        before = frozenset().union(*(e for e in ends if e != before)) or before
    return before


@settings(max_examples=150, deadline=None)
@given(steps=PROGRAMS, waits=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_fork_join_programs_have_exactly_their_edges(steps: list[Any], waits: list[int]) -> None:
    numbers: list[int] = []
    wanted: dict[int, frozenset[int]] = {}
    expected(steps, frozenset(), numbers, wanted)
    names: dict[str, int] = {}
    found: dict[int, frozenset[int]] = {}

    def count(part: list[Any]) -> int:
        return sum(1 if s is None else sum(count(b) for b in s) for s in part)

    async def play(part: list[Any], number: int) -> None:
        for step in part:
            for _ in range(waits[number % len(waits)]):
                await asyncio.sleep(0)
            if step is None:
                headers = agentix.headers()
                names[headers["x-agentix-call"]] = number
                found[number] = frozenset(names[p] for p in headers["x-agentix-parent"].split(",") if p)
                number += 1
            else:
                branches = []
                for branch in step:
                    branches.append(play(branch, number))
                    number += count(branch)
                await asyncio.gather(*branches)

    async def main() -> None:
        async with agentix.program("p"):
            await play(steps, 0)

    assert backend.configured() == ()
    agentix.instrument()
    try:
        asyncio.run(main())
    finally:
        instrumentation.uninstrument()
    assert found == wanted
