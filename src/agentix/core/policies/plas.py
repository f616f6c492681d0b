"""PLAS: program-level attained service (paper §4.2.1, eq. 1), for single-threaded programs."""

from __future__ import annotations

from agentix.core.policies.base import MultiLevelPolicy
from agentix.core.program import CallRow, ProgramRow


class PLAS(MultiLevelPolicy):
    """p(c) = sum of t over the program's calls that are over, read when c arrives: least-served programs first."""

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """Service of the program so far."""
        return row.service_s
