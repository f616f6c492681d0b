"""Errors of the core. Each carries the ids of what it is about.

AgentixError
├── ConfigError            a setting that cannot be honoured; names the key and lists what exists
└── InvalidTransition      an event that cannot happen now; state is left untouched
    ├── UnknownProgram     no row for that program
    └── UnknownCall        no active call of that id
"""

from __future__ import annotations

from collections.abc import Iterable


class AgentixError(Exception):
    """Root of every error that Agentix raises on purpose."""


class ConfigError(AgentixError):
    """A setting is unknown or out of range; the message names it and says what is accepted."""


class InvalidTransition(AgentixError):
    """An event that is impossible in the present state. Nothing was changed."""


class UnknownProgram(InvalidTransition):
    """The process table has no row for `program_id`."""

    def __init__(self, program_id: str) -> None:
        super().__init__(f"unknown program {program_id!r}")
        self.program_id = program_id


class UnknownCall(InvalidTransition):
    """The process table has no active call `call_id`."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"unknown call {call_id!r} (never arrived, or already over)")
        self.call_id = call_id


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The one wording for "there is no such thing": names it and lists what exists."""
    return ConfigError(f"unknown {kind} {name!r}; known: {', '.join(sorted(known))}")
