"""The worst policy there is: a new order every few steps, so that calls are switched as often as possible."""

from __future__ import annotations

from hashlib import blake2b

from agentix.core.config import SchedulerConfig
from agentix.core.policies.base import MultiLevelPolicy
from agentix.core.program import CallRow, ProgramRow


class Shuffled(MultiLevelPolicy):
    """Levels by the program's attained service, as in PLAS; within a level a new random order every first quantum."""

    reranks = True

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self._period_s = config.quanta_s[0]

    def attained_s(self, call: CallRow, row: ProgramRow) -> float:
        """Service of the program's calls that are over."""
        return row.service_s

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        """Another number in every period."""
        return float(int.from_bytes(blake2b(f"{now // self._period_s} {call.call_id}".encode(), digest_size=4).digest()))
