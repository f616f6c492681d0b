"""Why a benchmark cannot run.

AgentixError
└── BenchError    the run cannot start: target out of reach, nothing to replay, HTTP library missing

A call that fails during a run is not an exception: it is recorded, and the run goes on.
"""

from __future__ import annotations

from agentix.core.errors import AgentixError


class BenchError(AgentixError):
    """The benchmark cannot start; the message says what to change."""
