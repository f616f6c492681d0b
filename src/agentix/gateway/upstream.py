"""What goes to the engine: the client's request, with the program's name and totals added and nothing else changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentix.core.events import Attained
from agentix.core.program import CallRow, ProgramRow
from agentix.gateway.identity import Identity
from agentix.wire import CALL_HEADER, ENGINE_HEADER, PROGRAM_HEADER, REQUEST_ID_HEADER, SESSION_HEADER, attained_to_xargs

RawHeaders = Sequence[tuple[bytes, bytes]]

# Headers that belong to one connection (RFC 9110 §7.6.1), and those that a changed body or encoding makes untrue.
_PER_CONNECTION = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split()
)
_RECOMPUTED = frozenset({b"host", b"content-length", b"accept-encoding", SESSION_HEADER.encode()})
_OURS = frozenset(name.encode() for name in (PROGRAM_HEADER, CALL_HEADER, ENGINE_HEADER))


def upstream_headers(headers: RawHeaders, identity: Identity, call_id: str) -> list[tuple[bytes, bytes]]:
    """The client's headers (Authorization among them) and the program id under the name vLLM reads.

    An anonymous call gets no session, so that engines do not keep a program that can never come back. Answers are asked
    for uncompressed: the relay reads figures from their end.
    """
    kept = _end_to_end(headers, _RECOMPUTED)
    kept.append((b"accept-encoding", b"identity"))
    if all(name != REQUEST_ID_HEADER.encode() for name, _ in kept):
        kept.append((REQUEST_ID_HEADER.encode(), call_id.encode()))
    if not identity.anonymous:
        kept.append((SESSION_HEADER.encode(), identity.program_id.encode()))
    return kept


def upstream_auth(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's credentials alone, for requests that the gateway makes on its behalf."""
    return {k: v for k, v in headers.items() if k in {"authorization", "x-api-key", "api-key"}}


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Prompt length by the rule of thumb of four characters per token; good to about 30 % on English and code.

    Counts text wherever it stands in `messages`, `prompt` or `tools`; a prompt given as token ids counts them.
    """
    num_chars = 0
    rest = [body.get("messages"), body.get("prompt"), body.get("tools")]
    while rest:
        match rest.pop():
            case str() as text:
                num_chars += len(text)
            case int():
                num_chars += 4
            case dict() as fields:
                rest.extend(fields.values())
            case list() as items:
                rest.extend(items)
    return num_chars // 4


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
            program_class=row.program_class,
        )
        changed["vllm_xargs"] = {**xargs, **attained_to_xargs(totals)}
    return changed


def client_headers(headers: RawHeaders, identity: Identity, call_id: str, engine_id: str) -> list[tuple[bytes, bytes]]:
    """The engine's response headers, less those of its own connection, and ours."""
    ours = {PROGRAM_HEADER: identity.program_id, CALL_HEADER: call_id, ENGINE_HEADER: engine_id}
    return [
        *_end_to_end(headers, _OURS | {b"content-length", b"date", b"server"}),
        *((name.encode(), value.encode()) for name, value in ours.items()),
    ]


def _end_to_end(headers: RawHeaders, dropped: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    """The headers without `dropped` and without those of one connection, which `Connection` may name more of."""
    listed = {token.strip().lower() for name, value in headers if name.lower() == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in headers if name.lower() not in _PER_CONNECTION | listed | dropped]
