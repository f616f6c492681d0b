"""Errors of local engines.

AgentixError
├── ModelError          a built-in model cannot be prepared
├── EngineStartError    an engine died or stayed silent while starting; carries the end of its log
└── EngineStopError     processes of an engine survived SIGKILL (stuck in the kernel)
"""

from __future__ import annotations

from pathlib import Path

from agentix.core.errors import AgentixError


class ModelError(AgentixError):
    """A built-in model cannot be prepared; the message says what to do."""


class EngineStartError(AgentixError):
    """`engine_id` never became healthy. `log_tail` holds its last lines, the whole log is at `log_path`."""

    def __init__(self, engine_id: str, reason: str, *, log_path: Path, log_tail: tuple[str, ...]) -> None:
        tail = "\n".join(f"    {line}" for line in log_tail) or "    (it wrote nothing)"
        super().__init__(f"{engine_id} {reason}; its last lines:\n{tail}\nwhole log: {log_path}")
        self.engine_id = engine_id
        self.log_path = log_path
        self.log_tail = log_tail


class EngineStopError(AgentixError):
    """Processes of `engine_id` are still there after SIGKILL."""

    def __init__(self, engine_id: str, pids: list[int]) -> None:
        super().__init__(f"{engine_id}: processes {pids} survived SIGKILL")
        self.engine_id = engine_id
        self.pids = pids
