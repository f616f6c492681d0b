"""Why a batch cannot run, and how a job says that it is hopeless.

AgentixError
└── OfflineError  the batch cannot start: nothing to run, a results file that is not one, HTTP library missing
    └── GiveUp    raised by a job: it has failed, and would fail again
"""

from __future__ import annotations

from agentix.core.errors import AgentixError

HOPELESS = frozenset(range(400, 500)) - {408, 409, 425, 429}  # HTTP: the same request would be refused again


class OfflineError(AgentixError):
    """The batch cannot start; the message says what to change."""


class GiveUp(OfflineError):
    """For jobs to raise: failed, and trying again would not help."""
