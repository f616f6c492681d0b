"""Which programs run, in what order, and when each arrives: a pure function of trace, seed and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from agentix.bench.errors import BenchError
from agentix.workload import Program, thread_ids
from agentix.workload.draw import draw_programs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProgram:
    """One program of the run, under an id that no other run uses."""

    program_id: str
    arrival_s: float  # since the run began
    source: Program
    threads: Mapping[str, str]  # call id → thread id


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The run, in order of arrival."""

    programs: tuple[PlannedProgram, ...]
    num_skipped_too_long: int  # programs of the trace whose context may not fit the model
    num_repeated: int  # planned programs that are a second or later copy of one of the trace


def make_plan(
    programs: Sequence[Program],
    *,
    run_id: str,
    num_programs: int,
    rate_per_s: float,
    seed: int,
    max_model_len: int | None,
    context_margin: float,
) -> Plan:
    """Choose `num_programs` of those that fit, in seeded order, with Poisson arrivals. Raises BenchError.

    Order and arrivals are those of `draw_programs`, the same for a seed in every run.
    """
    if not programs:
        raise BenchError("the workload holds no programs")
    for program in programs:
        if not program.has_text:
            raise BenchError(f"program {program.program_id!r} has no message text: a length-only trace cannot be replayed")
    fitting = [program for program in programs if fits(program, max_model_len=max_model_len, context_margin=context_margin)]
    if not fitting:
        raise BenchError(f"none of the {len(programs)} programs fits the model's context of {max_model_len} tokens")
    drawn = draw_programs(fitting, num_programs=num_programs, rate_per_s=rate_per_s, seed=seed)
    return Plan(
        programs=tuple(
            PlannedProgram(
                program_id=f"{run_id}-{index}-{header_safe(program.program_id)}",
                arrival_s=arrival_s,
                source=program,
                threads=thread_ids(program),
            )
            for index, (program, arrival_s) in enumerate(drawn)
        ),
        num_skipped_too_long=len(programs) - len(fitting),
        num_repeated=max(0, num_programs - len(fitting)),
    )


def fits(program: Program, *, max_model_len: int | None, context_margin: float) -> bool:
    """Whether every call's context fits: margin x prompt tokens of the trace + output tokens ≤ `max_model_len`.

    The prompt is counted by the trace's tokenizer, which other tokenizers exceed by up to the margin. The output needs
    none: it is asked for in the model's own tokens. Without a known limit everything fits.
    """
    if max_model_len is None:
        return True
    return all(math.ceil(context_margin * c.prompt_tokens) + c.output_tokens <= max_model_len for c in program.calls)


def header_safe(text: str) -> str:
    """An id as it can stand in a header, in a comma-separated list and in a URL path: other characters as %XX."""
    return quote(text, safe="", errors="replace")
