"""What goes to the engine: the client's request, with the program's name and totals added and nothing else changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import httpx2
from starlette.types import Scope
from yarl import URL

from agentix.core.events import Attained
from agentix.core.program import CallRow, ProgramRow
from agentix.gateway.apis import Api, Dialect
from agentix.gateway.config import EngineTarget
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Identity, engine_session
from agentix.gateway.vendor_fields import flatten_xargs, hinted_priority
from agentix.wire import (
    CALL_HEADER,
    ENGINE_HEADER,
    LAST_CALL_XARG,
    LEVEL_HEADER,
    PRIORITY_HEADER,
    PROGRAM_HEADER,
    QUEUE_MS_HEADER,
    REQUEST_ID_HEADER,
    SESSION_HEADER,
    TOTALS_XARGS,
    attained_to_xargs,
)

RawHeaders = Sequence[tuple[bytes, bytes]]

# Headers that belong to one connection (RFC 9110 §7.6.1), and those that a changed body or encoding makes untrue.
_PER_CONNECTION = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split()
)
_RECOMPUTED = frozenset({b"host", b"content-length", b"accept-encoding", SESSION_HEADER.encode()})
_OURS = frozenset(n.encode() for n in (PROGRAM_HEADER, CALL_HEADER, ENGINE_HEADER, QUEUE_MS_HEADER, LEVEL_HEADER))


_FOR_US_TO_SET = _OURS | {b"content-length", b"date", b"server"}

# Keys of clients, under the names that OpenAI's, Anthropic's and Azure's SDKs send.
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})


def upstream_headers(
    headers: RawHeaders, target: EngineTarget, identity: Identity, call_id: str, priority: int | None = None
) -> list[tuple[bytes, bytes]]:
    """The client's headers (Authorization among them, unless the engine has a key of its own) and the program id for vLLM.

    An anonymous call gets no session, so that engines do not keep a program that may never come back. Answers are asked
    for uncompressed: the relay reads figures from their end. `priority`: in vLLM's sense, unless the client set one.
    """
    kept = forwarded_headers(headers, target)
    if all(name != REQUEST_ID_HEADER.encode() for name, _ in kept):
        kept.append((REQUEST_ID_HEADER.encode(), call_id.encode()))
    if not identity.anonymous:
        kept.append((SESSION_HEADER.encode(), engine_session(identity.program_id).encode()))
    if priority is not None and all(name != PRIORITY_HEADER.encode() for name, _ in kept):
        kept.append((PRIORITY_HEADER.encode(), str(priority).encode()))
    return kept


def forwarded_headers(headers: RawHeaders, target: EngineTarget) -> list[tuple[bytes, bytes]]:
    """The client's headers as far as they go on: none of its connection's, none of a session, which is for us to name.

    An engine's own key replaces the client's.
    """
    own = [(name.encode(), value.encode()) for name, value in target.credentials().items()]
    dropped = _RECOMPUTED | CREDENTIALS if own else _RECOMPUTED
    return [*_end_to_end(headers, dropped), (b"accept-encoding", b"identity"), *own]


def upstream_auth(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's credentials alone, for requests that the gateway makes on its behalf."""
    return {k: v for k, v in headers.items() if k.encode("latin-1") in CREDENTIALS}


def upstream_body(
    api: Api,
    body: Mapping[str, Any],
    identity: Identity,
    row: ProgramRow,
    call: CallRow,
    *,
    plugin: bool,
) -> dict[str, Any]:
    """The client's body, asking for usage in a stream, and for our engines with the program's totals.

    Fields of `vllm_xargs` that vLLM would refuse are flattened. Wherever vLLM reads the session from, it is the program's id,
    or nothing: never what a client has put there. Everything else passes, known or not.
    """
    changed = _with_session(body, identity)  # vLLM prefers it to the header
    options = changed.get("stream_options")
    if api.asks_for_usage and changed.get("stream") is True and isinstance(options, dict | None):
        changed["stream_options"] = _with_usage(options or {})
    xargs = changed.get("vllm_xargs")
    if isinstance(xargs, dict):
        changed["vllm_xargs"] = _with_session(flatten_xargs(xargs), identity)
    if plugin and api.dialect is not Dialect.EMBEDDINGS and isinstance(xargs, dict | None):
        totals = Attained(
            service_s=row.service_s,
            waiting_s=row.waiting_s,
            critical_path_s=row.critical_path_s,
            path_s=call.path_s,
            expected_s=row.learnt_s,
            program_class=row.program_class,
            weight=row.weight,
        )
        last = {LAST_CALL_XARG: True} if identity.final else {}
        theirs = {k: v for k, v in (changed.get("vllm_xargs") or {}).items() if k not in TOTALS_XARGS}  # they are ours to say
        changed["vllm_xargs"] = {**theirs, **attained_to_xargs(totals), **last}
    return changed


def _with_session(fields: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
    """The fields, with the program's id as `session_id` if they have one; an anonymous call's have none."""
    if "session_id" not in fields:
        return dict(fields)
    session = {} if identity.anonymous else {"session_id": engine_session(identity.program_id)}
    return {name: value for name, value in fields.items() if name != "session_id"} | session


def _with_usage(options: dict[str, Any]) -> dict[str, Any]:
    """Stream options that ask for usage at the end; in every chunk only if the client would have got it there."""
    if options.get("include_usage") or "continuous_usage_stats" not in options:
        return {**options, "include_usage": True}
    return {**options, "include_usage": True, "continuous_usage_stats": False}


def priority_for(body: Mapping[str, Any], *, plugin: bool) -> int | None:
    """What to send as vLLM's priority for a client that speaks Dynamo's dialect; None where it must not or need not be sent.

    An engine without our plug-in may refuse any priority but 0.
    """
    return hinted_priority(body) if plugin and "priority" not in body else None


def client_headers(headers: RawHeaders, identity: Identity, call_id: str, engine_id: str) -> list[tuple[bytes, bytes]]:
    """The engine's response headers, less those of its own connection, and ours."""
    ours = {PROGRAM_HEADER: identity.shown_id, CALL_HEADER: call_id, ENGINE_HEADER: engine_id}
    return [*answer_headers(headers), *((name.encode(), value.encode()) for name, value in ours.items())]


def answer_headers(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The engine's response headers, less those of its own connection and those that are for us to set."""
    return _end_to_end(headers, _FOR_US_TO_SET)


def engine_url(target: EngineTarget, scope: Scope) -> URL:
    """The client's path and query at an engine. Raises HTTPError 414 if they are too long for an address.

    From the scope: Starlette's request.url begins with the Host header, so that a client could choose the path.
    """
    query, address = scope["query_string"].decode("latin-1"), target.url + str(scope["path"])
    try:
        return _as_url(f"{address}?{query}") if query else _read_url(address)
    except httpx2.InvalidURL as error:
        raise HTTPError(414, f"the path and query are no address for an engine: {error}") from None


@lru_cache(maxsize=256)
def _read_url(address: str) -> URL:
    """The address read, which takes as long as the rest of a request: there are few, engines times APIs."""
    return _as_url(address)


def _as_url(address: str) -> URL:
    return URL(str(httpx2.URL(address)), encoded=True)


def _end_to_end(headers: RawHeaders, dropped: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    """The headers without `dropped` and without those of one connection, which `Connection` may name more of."""
    listed = {token.strip().lower() for name, value in headers if name.lower() == b"connection" for token in value.split(b",")}
    gone = _PER_CONNECTION | dropped | listed
    return [(name, value) for name, value in headers if name.lower() not in gone]
