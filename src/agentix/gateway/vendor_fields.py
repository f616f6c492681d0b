"""Fields of other projects' dialects, in the form that vLLM takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentix.wire import PRIORITY_HEADER

_MAX_PRIORITY = 2**31
# Who calls, and in which order it is to be served: said to engines and routers of ours, refused as unknown by hosted APIs.
_NOT_FOR_HOSTED = frozenset(
    {
        *("cache_salt", "ec_transfer_params", "is_last_step", "kv_transfer_params", "nvext", "priority", "program_id"),
        *("request_id", "rid", "session_id", "session_params", "vllm_xargs"),
    }
)


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


def without_vendor_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as a hosted API takes it. What else the client asks for is its own affair, and passes."""
    return {key: value for key, value in body.items() if key not in _NOT_FOR_HOSTED}


def wished_priority(headers: Mapping[str, str], body: Mapping[str, Any]) -> int:
    """So many levels later (negative: earlier) a client wants its call; as vLLM reads it: the header goes before the body."""
    text, own = headers.get(PRIORITY_HEADER, ""), body.get("priority")
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_PRIORITY)):
        return sign * int(digits)
    if isinstance(own, int) and not isinstance(own, bool) and abs(own) < _MAX_PRIORITY:
        return own
    return hinted_priority(body) or 0


def hinted_priority(body: Mapping[str, Any]) -> int | None:
    """The priority in `nvext.agent_hints`, as vLLM counts: Dynamo's higher numbers are earlier, vLLM's lower ones."""
    nvext = body.get("nvext")
    hints = nvext.get("agent_hints") if isinstance(nvext, Mapping) else None
    value = hints.get("priority") if isinstance(hints, Mapping) else None
    return -value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_PRIORITY else None
