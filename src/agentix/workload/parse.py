"""One line of a trace to one Program, or a TraceError that says where and why. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NoReturn

from agentix.workload.errors import TraceError
from agentix.workload.fields import Fields
from agentix.workload.trace import Call, Program


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file a program stands; turns a problem into an error that says so."""

    path: Path
    line: int  # from 1

    def fail(self, problem: str, *, program_id: str | None = None, call_id: str | None = None) -> NoReturn:
        """Raise the TraceError for this place."""
        raise TraceError(problem, path=self.path, line=self.line, program_id=program_id, call_id=call_id)


def parse_program(text: str, place: Place) -> Program:
    """The program on one line. Raises TraceError; returns only what passed every check."""
    try:
        raw = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        place.fail(f"bad JSON: {error}")
    fields = Fields(raw, fail=place.fail)
    program_id = fields.text("program_id")
    named = Fields(raw, fail=lambda problem: place.fail(problem, program_id=program_id))
    calls = tuple(_call(item, place, program_id) for item in named.items("calls"))
    _check_order(calls, place, program_id)
    return Program(
        program_id=program_id,
        workload=named.text("workload"),
        calls=calls,
        arrival_s=named.seconds("arrival_s"),
        block_size=named.optional_count("block_size"),
        meta=named.mapping("meta"),
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _call(raw: Any, place: Place, program_id: str) -> Call:
    call_id = Fields(raw, fail=lambda problem: place.fail(problem, program_id=program_id)).text("call_id")

    def fail(problem: str) -> NoReturn:
        place.fail(problem, program_id=program_id, call_id=call_id)

    fields = Fields(raw, fail=fail)
    call = Call(
        call_id=call_id,
        parents=fields.texts("parents"),
        prompt_tokens=fields.count("prompt_tokens"),
        output_tokens=fields.count("output_tokens"),
        tool_gap_s=fields.seconds("tool_gap_s"),
        inherits=fields.flag("inherits"),
        messages=fields.messages("messages"),
        keep=fields.optional_count("keep"),
        output_text=fields.optional_text("output_text"),
        output_estimated=fields.flag("output_estimated"),
        synthetic_output=fields.flag("synthetic_output"),
        new_tokens=fields.optional_count("new_tokens"),
        reused_tokens=fields.optional_count("reused_tokens"),
        prefix_hash_ids=fields.counts("prefix_hash_ids"),
        arrival_s=fields.seconds("arrival_s"),
        since_parent_arrival_s=fields.seconds("since_parent_arrival_s"),
        batch_latency_s=fields.seconds("batch_latency_s"),
        after=fields.optional_text("after"),
        kind=fields.optional_text("kind"),
        step=fields.optional_count("step"),
        agent=fields.optional_text("agent"),
    )
    _check_call(call, fail)
    return call


def _check_call(call: Call, fail: Callable[[str], NoReturn]) -> None:
    if len(set(call.parents)) < len(call.parents):
        fail("a parent is listed twice")
    if call.inherits and not call.parents:
        fail("inherits without a parent")
    if call.inherits and call.messages is None:
        fail("inherits without messages")


def _check_order(calls: tuple[Call, ...], place: Place, program_id: str) -> None:
    """Ids are unique, every parent exists, there is no cycle, and parents come first."""
    graph: dict[str, tuple[str, ...]] = {}
    for call in calls:
        if call.call_id in graph:
            place.fail("call id is used twice", program_id=program_id, call_id=call.call_id)
        graph[call.call_id] = call.parents
    for call in calls:
        for parent in call.parents:
            if parent not in graph:
                place.fail(f"parent {parent!r} does not exist", program_id=program_id, call_id=call.call_id)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        place.fail(f"calls form a cycle: {' → '.join(error.args[1])}", program_id=program_id)
    earlier: set[str] = set()
    for call in calls:
        for parent in call.parents:
            if parent not in earlier:
                place.fail(f"parent {parent!r} comes later in the list", program_id=program_id, call_id=call.call_id)
        earlier.add(call.call_id)
