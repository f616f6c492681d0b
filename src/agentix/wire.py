"""Names on the wire between client, gateway and engine: one place for each (docs/wire.md)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agentix.core.errors import ConfigError
from agentix.core.events import Attained

PROGRAM_HEADER = "x-agentix-program"
THREAD_HEADER = "x-agentix-thread"
PARENT_HEADER = "x-agentix-parent"
CALL_HEADER = "x-agentix-call"
ENGINE_HEADER = "x-agentix-engine"
QUEUE_MS_HEADER = "x-agentix-queue-ms"
LEVEL_HEADER = "x-agentix-level"
SESSION_HEADER = "x-session-id"
PRIORITY_HEADER = "x-vllm-priority"
REQUEST_ID_HEADER = "x-request-id"
KEY_VARIABLE = "AGENTIX_API_KEY"

# vLLM accepts scalars and flat lists alone in `vllm_xargs`, so a program's totals travel as one key each.
_XARGS = {
    "service_s": "agentix_service_s",
    "waiting_s": "agentix_waiting_s",
    "critical_path_s": "agentix_critical_path_s",
    "path_s": "agentix_path_s",
    "expected_s": "agentix_expected_s",
    "weight": "agentix_weight",
}
TOTALS_XARGS = frozenset(_XARGS.values())
CLASS_XARG = "agentix_class"
LAST_CALL_XARG = "agentix_last_call"


def attained_to_xargs(attained: Attained) -> dict[str, float | str]:
    """What a gateway adds to a call's `vllm_xargs` for an engine with the plug-in."""
    values = {key: getattr(attained, field) for field, key in _XARGS.items()} | {CLASS_XARG: attained.program_class or None}
    if attained.weight == 1.0:
        values[_XARGS["weight"]] = None  # an engine takes it for granted
    return {key: value for key, value in values.items() if value is not None}


def attained_from_xargs(xargs: Mapping[str, Any] | None) -> Attained | None:
    """The inverse, in the engine; None if the call brought no totals. What is not a finite number ≥ 0 is ignored."""
    if not xargs:
        return None
    found = {field: xargs.get(key) for field, key in _XARGS.items()}
    values = {field: float(v) for field, v in found.items() if isinstance(v, int | float) and 0 <= v <= sys.float_info.max}
    program_class = xargs.get(CLASS_XARG)
    if not isinstance(program_class, str):
        program_class = None
    return Attained(**values, program_class=program_class) if values or program_class else None


def is_last_call(xargs: Mapping[str, Any] | None) -> bool:
    """Whether a client says in a call's `vllm_xargs` that its program ends with it."""
    return any((xargs or {}).get(name) in (True, 1) for name in (LAST_CALL_XARG, "is_last_step"))  # the second is Continuum's


def server_root(url: str) -> str:
    """A server's address from whatever people give as its base URL: without /v1, and without a slash at the end."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def require_http(url: str, whose: str) -> None:
    """Raise ConfigError unless this can be a web server's URL; `whose` names the server."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{whose} URL starts with http:// or https://, not {url!r}")
    try:
        where = urlsplit(url)
        is_whole = bool(where.hostname) and where.port != 0
    except ValueError:  # the port is no number, or there is no such one
        is_whole = False
    if not is_whole:
        raise ConfigError(f"{whose} URL is http://HOST or http://HOST:PORT, or the same with https, not {url!r}")


def key_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """What shows a gateway the key in AGENTIX_API_KEY; {} without one."""
    key = environ.get(KEY_VARIABLE)
    return {"authorization": f"Bearer {key}"} if key else {}
