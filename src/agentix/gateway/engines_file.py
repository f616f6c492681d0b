"""Engines as people write them down: tables of a TOML file, or the body of POST /v1/engines."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentix.core.errors import ConfigError, unknown_name
from agentix.gateway.config import EngineTarget, HostedLimits

_LIMITS = tuple(HostedLimits.__dataclass_fields__)
_TYPES: dict[str, type] = {"url": str, "plugin": bool, "hosted": bool, "api_key_env": str, "api_key_header": str}


def load_engines(path: Path) -> tuple[EngineTarget, ...]:
    """The engines of a file with one table `[engine.ID]` each. Raises ConfigError, which names the file and the engine."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"engines file {path}: {error}") from None
    if other := data.keys() - {"engine"}:
        raise ConfigError(f"engines file {path}: unknown table {min(other)!r}; engines are tables [engine.ID]")
    tables = data.get("engine")
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f"engines file {path}: no engine in it; engines are tables [engine.ID]")
    try:
        return tuple(read_engine(engine_id, fields) for engine_id, fields in tables.items())
    except ConfigError as error:
        raise ConfigError(f"engines file {path}: {error}") from None


def read_engine(engine_id: Any, fields: Any) -> EngineTarget:
    """An engine from its fields; raises ConfigError.

    `url`; optional: `plugin`, `api_key_env`, `api_key_header`, `hosted`, and the limits of a hosted one (`HostedLimits`), which
    make it one.
    """
    if not isinstance(engine_id, str) or not engine_id.isprintable() or not 1 <= len(engine_id) <= 256 or "/" in engine_id:
        raise ConfigError(f"an engine's id is 1 to 256 printable characters without a slash, not {engine_id!r:.300}")
    if not isinstance(fields, Mapping):
        raise ConfigError(f"engine {engine_id!r}: {fields!r:.300} is no table")
    for name, value in fields.items():
        if name not in _TYPES and name not in _LIMITS:
            raise unknown_name(f"field of engine {engine_id!r}", name, (*_TYPES, *_LIMITS))
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            raise ConfigError(f"engine {engine_id!r}: {name} must be a {_TYPES[name].__name__}, not {value!r:.300}")
    if "url" not in fields:
        raise ConfigError(f"engine {engine_id!r} has no url")
    limits = {name: fields[name] for name in _LIMITS if name in fields}
    return EngineTarget(
        engine_id=engine_id,
        url=fields["url"],
        plugin=fields.get("plugin", False),
        hosted=HostedLimits(**limits) if fields.get("hosted", bool(limits)) else None,
        api_key_env=fields.get("api_key_env", ""),
        api_key_header=fields.get("api_key_header", "authorization"),
    )
