"""Workloads: programs recorded from real agents or generated like them, and when they arrive.

`trace` says what a program is, `load` and `save` read and write trace files, `originals` reads the public files that
traces come from, `generate` makes synthetic programs, `parts` says which prompts share a prefix, `arrivals` draws times.
"""

from __future__ import annotations

from agentix.workload.arrivals import gamma_arrivals, poisson_arrivals, trace_arrivals
from agentix.workload.check import check_program
from agentix.workload.errors import TraceError
from agentix.workload.generate import GENERATORS, ProgramGenerator, generate_programs
from agentix.workload.load import line_of, load_programs
from agentix.workload.parts import CallParts, Part, Parts, answer_part, program_parts, prompt_parts
from agentix.workload.save import save_programs
from agentix.workload.trace import Call, Message, Program, full_messages, thread_ids

__all__ = [
    "GENERATORS",
    "Call",
    "CallParts",
    "Message",
    "Part",
    "Parts",
    "Program",
    "ProgramGenerator",
    "TraceError",
    "answer_part",
    "check_program",
    "full_messages",
    "gamma_arrivals",
    "generate_programs",
    "line_of",
    "load_programs",
    "poisson_arrivals",
    "program_parts",
    "prompt_parts",
    "save_programs",
    "thread_ids",
    "trace_arrivals",
]
