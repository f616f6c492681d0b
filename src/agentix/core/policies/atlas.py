"""ATLAS: adaptive thread-level attained service (paper §4.2.1, eq. 2, algorithm 1), for programs that fork and join.

Two readings, to be compared: one scalar per program, as the paper implements it, and exact parents where the client
names them.
"""

from __future__ import annotations

from agentix.core.policies.base import MultiLevelPolicy
from agentix.core.program import CallRow, ProgramRow


class ATLAS(MultiLevelPolicy):
    """p(c) = the program's critical-path scalar when c arrives; all its calls share the entry and stay together."""

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """Longest path of service seen in the program so far."""
        return call.scalar_s


class ExactATLAS(MultiLevelPolicy):
    """p(c) = 0 for a root call, else the maximum over c's parents k of p(k) + t_k.

    A call whose parents are unknown inherits the program's scalar.
    """

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """Longest path of service that leads to the call."""
        return call.path_s
