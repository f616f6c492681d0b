"""SRPT: shortest remaining processing time of the program, the clairvoyant bound. For simulation only."""

from __future__ import annotations

from agentix.core.errors import ConfigError
from agentix.core.policies.base import SchedulingPolicy
from agentix.core.program import CallRow, ProgramRow


class SRPT(SchedulingPolicy):
    """Calls of the program with the least work left go first.

    Needs `total_work_s` on the program's start, which no real engine can know.
    """

    reranks = True
    clairvoyant = True

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """Total work of the program less all service its calls have had, in seconds."""
        if row.total_work_s is None:
            raise ConfigError(
                f"srpt needs the total work of program {row.program_id!r}, which only a simulation knows; choose another policy"
            )
        return row.total_work_s - row.service_s - sum(c.service_s for c in row.calls.values())
