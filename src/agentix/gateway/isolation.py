"""What a tenant's call may say to an engine that others use too: nothing that stands there for what is another's.

Engines know no tenants. What they keep under names that clients give (programs, media, responses, blocks of KV) they would
give to whoever names it, so those names are the tenant's own here, or are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentix.gateway.identity import engine_session, scoped
from agentix.gateway.identity.conventions import PARENT_SESSION_SOURCES, PROGRAM_SOURCES, is_id
from agentix.gateway.tenants import Tenants
from agentix.wire import PRIORITY_HEADER, SESSION_HEADER

RawHeaders = Iterable[tuple[bytes, bytes]]

# Headers and fields by which engines and routers of some kind know a program; those of `vllm_xargs` as they are once flat.
# `user`, `metadata`, `prompt_cache_key`, `conversation` and traces are no program's name there, and pass.
_NAMING_HEADERS = frozenset(
    source.header.encode()
    for source in (*PROGRAM_SOURCES, *PARENT_SESSION_SOURCES)
    if source.header and source.header not in {SESSION_HEADER, "baggage", "traceparent"}
)
_NAMING_FIELDS = (
    ("program_id",),
    ("session_params", "session_id"),
    ("session_params", "id"),
    ("nvext", "agent_context", "session_id"),
    ("nvext", "agent_context", "trajectory_id"),
    ("nvext", "agent_context", "parent_session_id"),
    ("nvext", "agent_context", "parent_trajectory_id"),
    ("vllm_xargs", "job_id"),
    ("vllm_xargs", "agentic_context_program_id"),
    ("vllm_xargs", "agentic_context_parent_program_id"),
)
# Under which names engines keep a request and its answer (vLLM, SGLang), and where they fetch KV from when told to.
_ENGINES_OWN = ("request_id", "rid", "kv_transfer_params", "ec_transfer_params")
_PRIORITIES = (("priority",), ("nvext", "agent_hints", "priority"))


def isolate(body: Mapping[str, Any], tenant: str, tenants: Tenants, *, plugin: bool) -> dict[str, Any]:
    """The body of a tenant's call as an engine may have it; without a tenant ("") as it is. Flattened already, if at all.

    Programs are named as `tenant/name`, media (`uuid` of vLLM) and prefix caches (`cache_salt`) by digests, and the engine
    names requests itself. An engine without the plug-in is told no priority: what it makes of one is not ours to see to, and
    the gateway's order has it already. Raises HTTPError 400 for a cache_salt that is none.
    """
    if not tenant:
        return dict(body)
    named: Mapping[str, Any] = {name: value for name, value in body.items() if name not in _ENGINES_OWN}
    for path in _NAMING_FIELDS:
        named = _replace(named, path, lambda name: _tenants_own(name, tenant))
    for path in () if plugin else _PRIORITIES:
        named = _replace(named, path, lambda _: None)
    changed = {**named, "cache_salt": tenants.cache_salt(tenant, body.get("cache_salt"))}
    for name in ("messages", "input"):
        if isinstance(items := body.get(name), list):
            changed[name] = [_with_own_media(item, tenant, tenants) for item in items]
    return changed


def isolate_headers(headers: RawHeaders, tenant: str, *, plugin: bool) -> list[tuple[bytes, bytes]]:
    """The same for the headers of a tenant's call."""
    if not tenant:
        return list(headers)
    kept = [(name, value) for name, value in headers if plugin or name.lower() != PRIORITY_HEADER.encode()]
    return [(n, engine_session(scoped(tenant, "")).encode() + v) if n.lower() in _NAMING_HEADERS else (n, v) for n, v in kept]


def _with_own_media(item: Any, tenant: str, tenants: Tenants) -> Any:
    """A message, or an item of the Responses API, whose media have the tenant's own names; the same object if it has none."""
    parts = item.get("content") if isinstance(item, Mapping) else None
    if not isinstance(parts, list) or not any(isinstance(part, Mapping) and part.get("uuid") is not None for part in parts):
        return item
    return {**item, "content": [_named_anew(part, tenant, tenants) for part in parts]}


def _named_anew(part: Any, tenant: str, tenants: Tenants) -> Any:
    own = part.get("uuid") if isinstance(part, Mapping) else None
    return part if own is None else {**part, "uuid": tenants.media_id(tenant, own)}


def _tenants_own(name: Any, tenant: str) -> str | None:
    """A program's name as the tenant's own; None for what can be no name."""
    return engine_session(scoped(tenant, name.strip())) if isinstance(name, str) and is_id(name.strip()) else None


def _replace(body: Mapping[str, Any], path: Sequence[str], change: Callable[[Any], Any]) -> Mapping[str, Any]:
    """The body with what `change` makes of the field at `path` (None: without it); the same object if it has no such field."""
    name, *rest = path
    if name not in body:
        return body
    if rest:
        inner = body[name]
        return {**body, name: _replace(inner, rest, change)} if isinstance(inner, Mapping) else body
    value = change(body[name])
    return {**body, name: value} if value is not None else {n: v for n, v in body.items() if n != name}
