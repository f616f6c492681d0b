"""The plug-in's settings, as given in vLLM's own `--additional-config '{"agentix": {…}}'`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """How the plug-in schedules one engine.

    scheduler        the core's settings: policy, quanta_s, starvation_ratio
    decision_log     file to which every event and the decisions on it are appended as JSON lines; None: no log
    program_idle_s   a program of a direct client without a call for this long is forgotten; programs that come through
                     a gateway bring their totals along and lose nothing by it
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    decision_log: str | None = None
    program_idle_s: float = 900.0

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """Build from the parsed JSON. Raises ConfigError for an unknown key or a wrong value."""
        if not isinstance(settings, Mapping):
            raise ConfigError(f"agentix must be an object of settings, not {settings!r}")
        rest = dict(settings)
        decision_log = rest.pop("decision_log", None)
        program_idle_s = rest.pop("program_idle_s", cls.__dataclass_fields__["program_idle_s"].default)
        if decision_log is not None and not isinstance(decision_log, str):
            raise ConfigError(f"decision_log must be the path of a file, not {decision_log!r}")
        if not isinstance(program_idle_s, int | float) or not program_idle_s > 0:
            raise ConfigError(f"program_idle_s must be a positive number of seconds, not {program_idle_s!r}")
        return cls(
            scheduler=SchedulerConfig.from_mapping(rest),
            decision_log=decision_log,
            program_idle_s=float(program_idle_s),
        )
