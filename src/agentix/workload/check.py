"""Is this a program? The checks that every program passes, whether it was read, converted or generated."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NoReturn

from agentix.workload.errors import TraceError
from agentix.workload.trace import Call, Program


def check_program(program: Program, *, path: Path | None = None, line: int | None = None) -> None:
    """Raise a TraceError, which names the place, for the first thing that is wrong between the fields of a program.

    Call ids are unique; parents exist, come first and form no cycle; what inherits has a parent and messages; parts add
    up to their prompt. Types and signs of single fields are their reader's affair.
    """

    def fail(problem: str, call_id: str | None = None) -> NoReturn:
        raise TraceError(problem, path=path, line=line, program_id=program.program_id, call_id=call_id)

    for call in program.calls:
        problem = _problem(call)
        if problem is not None:
            fail(problem, call.call_id)
    graph: dict[str, tuple[str, ...]] = {}
    for call in program.calls:
        if call.call_id in graph:
            fail("call id is used twice", call.call_id)
        graph[call.call_id] = call.parents
    for call_id, parents in graph.items():
        for parent in parents:
            if parent not in graph:
                fail(f"parent {parent!r} does not exist", call_id)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        fail(f"calls form a cycle: {' → '.join(error.args[1])}")
    earlier: set[str] = set()
    for call_id, parents in graph.items():
        for parent in parents:
            if parent not in earlier:
                fail(f"parent {parent!r} comes later in the list", call_id)
        earlier.add(call_id)


def _problem(call: Call) -> str | None:
    """What is wrong within one call, or None."""
    if len(set(call.parents)) < len(call.parents):
        return "a parent is listed twice"
    if call.inherits and not call.parents:
        return "inherits without a parent"
    if call.inherits and call.messages is None:
        return "inherits without messages"
    if call.prompt_parts is not None:
        total = sum(tokens for _, tokens in call.prompt_parts)
        if total != call.prompt_tokens:
            return f"prompt_parts add up to {total}, prompt_tokens is {call.prompt_tokens}"
    return None
