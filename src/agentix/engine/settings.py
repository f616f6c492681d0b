"""The plug-in's settings: one JSON object, in vLLM's own `--additional-config '{"agentix": {…}}'` or in `AGENTIX_PLUGIN`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from agentix.core.config import SchedulerConfig
from agentix.core.errors import ConfigError

SETTINGS_VARIABLE = "AGENTIX_PLUGIN"
# What engines do beyond the core's defaults. Ten quanta that double reach from calls of a second, on a GPU, to programs that
# keep a slow engine busy for a quarter of an hour: with six, which end at a minute, long programs would be told apart no more.
_ENGINE_RULES = {"running_first": True, "weigh_evictions": True, "quanta_s": tuple(float(2**i) for i in range(10))}
PREEMPTIONS = ("none", "park", "recompute")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """How the plug-in schedules one engine.

    scheduler        the core's settings: policy, quanta_s (here 1, 2, 4 … 512 s by default), starvation_ratio, and two that are
                     on unless switched off: running_first (no call is preempted for one of its own level) and
                     weigh_evictions (a call takes KV blocks of others only if that is worth it)
    decision_log     file to which every event and the decisions on it are appended as JSON lines; None: no log
    step_log         file to which the work and the duration of every step are appended as JSON lines; None: no log
    preemption       of a running call when a better one waits: "park" it (its KV stays until it is needed), "recompute" (its
                     KV goes at once, and what the prefix cache does not keep is computed again), or "none": order the
                     queue alone. `fcfs` leaves vLLM as it is
    program_idle_s   a program of a direct client without a call for this long is forgotten; programs that come through
                     a gateway bring their totals along and lose nothing by it
    """

    scheduler: SchedulerConfig = field(default_factory=lambda: SchedulerConfig.from_mapping(_ENGINE_RULES))
    decision_log: str | None = None
    step_log: str | None = None
    preemption: str = "park"
    program_idle_s: float = 900.0

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of `from_mapping`, ready for JSON."""
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "scheduler"}
        return {**self.scheduler.to_mapping(), **settings}

    @classmethod
    def find(cls, additional_config: Mapping[str, Any] | None, environ: Mapping[str, str]) -> Self:
        """The settings given to this engine; the command line wins over the environment, and without both defaults hold.

        Raises ConfigError for what is not JSON, an unknown key or a wrong value.
        """
        if "agentix" in (additional_config or {}):
            return cls.from_mapping((additional_config or {})["agentix"])
        text = environ.get(SETTINGS_VARIABLE, "{}")
        try:
            return cls.from_mapping(json.loads(text))
        except ValueError:
            raise ConfigError(f"{SETTINGS_VARIABLE} must be a JSON object, not {text!r}") from None

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """Build from the parsed JSON. Raises ConfigError for an unknown key or a wrong value."""
        if not isinstance(settings, Mapping):
            raise ConfigError(f"agentix must be an object of settings, not {settings!r}")
        rest = dict(settings)
        logs = {name: rest.pop(name, None) for name in ("decision_log", "step_log")}
        program_idle_s = rest.pop("program_idle_s", cls.__dataclass_fields__["program_idle_s"].default)
        for name, path in logs.items():
            if path is not None and not isinstance(path, str):
                raise ConfigError(f"{name} must be the path of a file, not {path!r}")
        preemption = rest.pop("preemption", cls.__dataclass_fields__["preemption"].default)
        if preemption not in PREEMPTIONS:
            raise ConfigError(f"preemption must be one of {', '.join(PREEMPTIONS)}, not {preemption!r}")
        if not isinstance(program_idle_s, int | float) or not program_idle_s > 0:
            raise ConfigError(f"program_idle_s must be a positive number of seconds, not {program_idle_s!r}")
        return cls(
            scheduler=SchedulerConfig.from_mapping({**_ENGINE_RULES, **rest}),
            preemption=preemption,
            program_idle_s=float(program_idle_s),
            **logs,
        )
