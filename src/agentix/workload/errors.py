"""What can be wrong with a trace.

AgentixError
└── TraceError    a trace that cannot be read or used; names the file, the line and the program
"""

from __future__ import annotations

from pathlib import Path

from agentix.core.errors import AgentixError


class TraceError(AgentixError):
    """A trace breaks its format. Nothing of the file was kept."""

    def __init__(
        self,
        problem: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        program_id: str | None = None,
        call_id: str | None = None,
    ) -> None:
        places = [
            None if path is None else str(path),
            None if line is None else f"line {line}",
            None if program_id is None else f"program {program_id!r}",
            None if call_id is None else f"call {call_id!r}",
        ]
        where = ", ".join(place for place in places if place is not None)
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.path = path
        self.line = line
        self.program_id = program_id
        self.call_id = call_id
