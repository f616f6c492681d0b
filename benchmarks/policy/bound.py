"""A bound to compare with: who has the least left goes first, with the default's care for KV. It knows the future."""

from __future__ import annotations

from agentix.core.errors import ConfigError
from agentix.core.policies.gittins import Gittins
from agentix.core.program import ProgramRow


class ResidentSRPT(Gittins):
    """`gittins` with the true remaining work in place of the expected one: what is left to gain by knowing better."""

    clairvoyant = True

    def expected_s(self, row: ProgramRow) -> float:
        """Total work less all service so far, seconds."""
        if row.total_work_s is None:
            raise ConfigError(f"the total work of program {row.program_id!r} is known to a simulation alone")
        return max(self._least_s, row.total_work_s - row.attained_s)
