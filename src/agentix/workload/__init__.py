"""Workloads: programs recorded from real agents, and when they arrive.

`trace` says what a program is, `load` reads trace files, `arrivals` draws arrival times.
"""

from __future__ import annotations

from agentix.workload.arrivals import poisson_arrivals
from agentix.workload.errors import TraceError
from agentix.workload.load import load_programs
from agentix.workload.trace import Call, Message, Program, full_messages, thread_ids

__all__ = [
    "Call",
    "Message",
    "Program",
    "TraceError",
    "full_messages",
    "load_programs",
    "poisson_arrivals",
    "thread_ids",
]
