"""One line of a trace to one Program, or a TraceError that says where and why. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agentix.workload.check import check_program
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
    program = Program(
        program_id=program_id,
        workload=named.text("workload"),
        calls=tuple(_call(item, place, program_id) for item in named.items("calls")),
        arrival_s=named.seconds("arrival_s"),
        block_size=named.optional_count("block_size"),
        meta=named.mapping("meta"),
    )
    check_program(program, path=place.path, line=place.line)
    return program


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _call(raw: Any, place: Place, program_id: str) -> Call:
    call_id = Fields(raw, fail=lambda problem: place.fail(problem, program_id=program_id)).text("call_id")

    def fail(problem: str) -> NoReturn:
        place.fail(problem, program_id=program_id, call_id=call_id)

    fields = Fields(raw, fail=fail)
    return Call(
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
        prompt_parts=fields.parts("prompt_parts"),
        arrival_s=fields.seconds("arrival_s"),
        since_parent_arrival_s=fields.seconds("since_parent_arrival_s"),
        batch_latency_s=fields.seconds("batch_latency_s"),
        after=fields.optional_text("after"),
        kind=fields.optional_text("kind"),
        step=fields.optional_count("step"),
        agent=fields.optional_text("agent"),
    )
