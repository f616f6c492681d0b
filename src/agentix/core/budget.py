"""What an engine can hold in one batch, asked call by call while a batch is chosen."""

from __future__ import annotations

from typing import Protocol

from agentix.core.program import CallRow


class BatchBudget(Protocol):
    """What the engine can hold in one batch: slots, KV blocks, tokens. The shell's knowledge, asked call by call."""

    def take(self, call: CallRow) -> bool:
        """Reserve room for `call`; False (and nothing reserved) if it does not fit."""
        ...


class Slots:
    """A budget of `num_slots` calls and nothing else."""

    def __init__(self, num_slots: int) -> None:
        self._left = num_slots

    def take(self, call: CallRow) -> bool:
        """One slot."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True
