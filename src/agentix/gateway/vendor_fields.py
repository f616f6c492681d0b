"""Fields of other projects' dialects, in the form that vLLM takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MAX_PRIORITY = 2**31


def flatten_xargs(xargs: Mapping[str, Any]) -> dict[str, Any]:
    """`vllm_xargs` with nested objects as one key each: `{"a": {"b": 1}}` as `{"a_b": 1}`.

    vLLM takes text, numbers and flat lists of them, and refuses the whole call for anything else; that is left out. A key that
    the client gave itself goes before one made up here.
    """
    return {**dict(_flat("", xargs)), **{k: v for k, v in xargs.items() if _is_flat(v)}}


def _flat(prefix: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    rest = [(prefix, fields)]
    while rest:
        prefix, fields = rest.pop()
        for key, value in fields.items():
            if isinstance(value, Mapping):
                rest.append((f"{prefix}{key}_", value))
            elif _is_flat(value):
                yield f"{prefix}{key}", value


def _is_flat(value: Any) -> bool:
    return isinstance(value, str | int | float) or (
        isinstance(value, list) and all(isinstance(item, str | int | float) for item in value)
    )


def hinted_priority(body: Mapping[str, Any]) -> int | None:
    """The priority in `nvext.agent_hints`, as vLLM counts: Dynamo's higher numbers are earlier, vLLM's lower ones."""
    nvext = body.get("nvext")
    hints = nvext.get("agent_hints") if isinstance(nvext, Mapping) else None
    value = hints.get("priority") if isinstance(hints, Mapping) else None
    return -value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_PRIORITY else None
