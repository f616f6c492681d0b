"""What a call costs does not grow with the programs that are live: counted in lines of Python, which no other load changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fake_engine import FakeEngine
from gateway_system import System, gateway

_OURS = ("/agentix/gateway/", "/agentix/core/")
_REPEATS = 5  # now and then something that goes on all the time falls into a call; it does not fall into all of them


@contextmanager
def counted_lines() -> Iterator[list[int]]:
    """How many lines of the gateway run in the block, in functions that begin there."""
    count = [0]

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        count[0] += event == "line"
        return trace

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        return trace if any(part in frame.f_code.co_filename for part in _OURS) else None

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield count
    finally:
        sys.settrace(before)


async def open_programs(system: System, first: int, last: int) -> None:
    for number in range(first, last):
        assert (await call(system, f"program-{number}")).status_code == 200


async def call(system: System, program_id: str) -> Any:
    return await system.chat({"X-Agentix-Program": program_id}, messages=[{"role": "user", "content": f"I am {program_id}"}])


async def lines_of_a_call(system: System) -> int:
    """Of the third call of a program: the first two are unlike those that follow."""
    found = []
    for number in range(_REPEATS):
        program_id = f"measured-{number}"
        await call(system, program_id)
        await call(system, program_id)
        with counted_lines() as count:
            await call(system, program_id)
        found.append(count[0])
        assert (await system.client.delete(f"/v1/programs/{program_id}")).status_code in {200, 204}
    return min(found)


async def test_a_call_takes_no_more_lines_with_many_programs_than_with_few() -> None:
    async with gateway(FakeEngine(), health_period_s=60.0) as system:
        await system.models_known()
        await open_programs(system, 0, 10)
        with_few = await lines_of_a_call(system)
        await open_programs(system, 10, 210)
        assert len(system.table.rows) == 210
        with_many = await lines_of_a_call(system)
        assert with_few > 300, "there is something to count"
        assert with_many < with_few + 100, "200 programs more, at one line each, would be 200 lines more"
