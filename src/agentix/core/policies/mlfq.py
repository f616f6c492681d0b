"""Multi-level feedback queue: the classic, blind to programs (the paper's baseline)."""

from __future__ import annotations

from agentix.core.policies.base import MultiLevelPolicy
from agentix.core.program import CallRow, ProgramRow


class MLFQ(MultiLevelPolicy):
    """Attained service of the call itself: every call enters the top level and sinks as it is served."""

    starves_by_program = False
    ignores_programs = True

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """Service of the call: none on arrival."""
        return call.service_s
