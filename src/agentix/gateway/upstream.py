"""What goes to the engine: the client's request, with the program's name and totals added and nothing else changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentix.core.events import Attained
from agentix.core.program import CallRow, ProgramRow
from agentix.gateway.identity import Identity
from agentix.wire import REQUEST_ID_HEADER, SESSION_HEADER, attained_to_xargs

# Headers that belong to one connection (RFC 9110 §7.6.1), and those that a changed body or encoding makes untrue.
_PER_CONNECTION = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split()  # noqa: SIM905
)
_RECOMPUTED = frozenset({"host", "content-length", "accept-encoding", SESSION_HEADER})


def upstream_headers(headers: Mapping[str, str], identity: Identity, call_id: str) -> dict[str, str]:
    """The client's headers (Authorization among them) and the program id under the name vLLM reads.

    An anonymous call gets no session, so that engines do not keep a program that can never come back. Answers are asked
    for uncompressed: the relay reads figures from their end.
    """
    kept = {k: v for k, v in headers.items() if k not in _PER_CONNECTION and k not in _RECOMPUTED}
    kept.setdefault(REQUEST_ID_HEADER, call_id)
    kept["accept-encoding"] = "identity"
    if not identity.anonymous:
        kept[SESSION_HEADER] = identity.program_id
    return kept


def upstream_auth(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's credentials alone, for requests that the gateway makes on its behalf."""
    return {k: v for k, v in headers.items() if k in {"authorization", "x-api-key", "api-key"}}


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Prompt length by the rule of thumb of four characters per token; good to about 30 % on English and code.

    Counts text wherever it stands in `messages` or `prompt`; a prompt given as token ids counts them.
    """

    def count(value: Any) -> int:
        match value:
            case str():
                return len(value)
            case int():
                return 4
            case dict():
                return sum(count(v) for v in value.values())
            case list():
                return sum(count(v) for v in value)
        return 0

    return count([body.get("messages"), body.get("prompt"), body.get("tools")]) // 4


def upstream_body(
    body: Mapping[str, Any], identity: Identity, row: ProgramRow, call: CallRow, *, plugin: bool
) -> dict[str, Any]:
    """The client's body, asking for usage in a stream, and for our engines with the program's totals."""
    changed = dict(body)
    if "session_id" in changed and not identity.anonymous:
        changed["session_id"] = identity.program_id  # vLLM prefers it to the header
    if changed.get("stream") is True and isinstance(changed.get("stream_options", {}), dict | None):
        changed["stream_options"] = {**(changed.get("stream_options") or {}), "include_usage": True}
    xargs = changed.get("vllm_xargs") or {}
    if plugin and isinstance(xargs, dict):
        totals = Attained(
            service_s=row.service_s,
            waiting_s=row.waiting_s,
            critical_path_s=row.critical_path_s,
            path_s=call.path_s,
        )
        changed["vllm_xargs"] = {**xargs, **attained_to_xargs(totals)}
    return changed


def client_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The engine's response headers, less those of its own connection."""
    dropped = _PER_CONNECTION | {"content-length", "date", "server"}
    return [(k, v) for k, v in headers.items() if k.lower() not in dropped]
