"""Which program does a client say a call belongs to? One table for the conventions of all clients (docs/wire.md).

Reading is stateless: what the client said, in the words of one dialect. What it means beside other calls is `sessions`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentix.gateway.errors import HTTPError
from agentix.wire import CALL_HEADER, PARENT_HEADER, PROGRAM_HEADER, SESSION_HEADER, THREAD_HEADER

MAX_ID_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Source:
    """One place where clients put a name: a header, or the path of a field in the body.

    `read` takes the id out of the text (None: it holds none). `weak`: an id that also changes within a program, so that
    what the messages say goes before it.
    """

    header: str = ""
    field: tuple[str, ...] = ()
    read: Callable[[str], str | None] = str.strip
    weak: bool = False


def _claude_session(user_id: str) -> str | None:
    """The session in Claude Code's `metadata.user_id`: `user_…_account_…_session_ID`, in later versions a JSON object."""
    if user_id.startswith("{"):
        try:
            session = json.loads(user_id).get("session_id")
        except (ValueError, RecursionError):
            return None
        return session if isinstance(session, str) else None
    found = re.search(r"_session_([\w-]+)$", user_id)
    return found and found[1]


def _trace_id(traceparent: str) -> str | None:
    """The trace id (W3C Trace Context); None for a header that is none, or whose id is all zeros."""
    found = re.fullmatch(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*", traceparent.strip())
    return found[1] if found and int(found[1], 16) else None


def _baggage(header: str) -> str | None:
    """The conversation in W3C baggage: `gen_ai.conversation.id` or `session.id`."""
    members = dict(m.split(";")[0].strip().split("=", 1) for m in header.split(",") if "=" in m.split(";")[0])
    return members.get("gen_ai.conversation.id") or members.get("session.id")


_TRAJECTORY = ("nvext", "agent_context", "trajectory_id")

# Headers before bodies: a proxy on the way can set them. Within each, from the most to the least specific.
PROGRAM_SOURCES = (
    Source(PROGRAM_HEADER),
    Source(SESSION_HEADER),  # vLLM, vllm-router, llm-d, SMG, Ray, OpenCode
    Source("x-claude-code-session-id"),
    Source("session-id"),  # Codex
    Source("session_id"),  # Codex, earlier
    Source("x-dynamo-session-id"),
    Source("x-session-affinity"),  # OpenCode
    Source("x-litellm-trace-id"),
    Source("x-session-token"),  # llm-d
    Source("x-llm-d-inference-fairness-id"),
    Source(field=("session_id",)),  # vLLM
    Source(field=("program_id",)),  # ThunderAgent
    Source(field=("session_params", "session_id")),
    Source(field=("nvext", "agent_context", "session_id")),  # Dynamo
    Source(field=_TRAJECTORY),
    Source(field=("vllm_xargs", "session_id")),
    Source(field=("vllm_xargs", "agentic_context", "program_id")),  # AgentInfer
    Source(field=("vllm_xargs", "job_id")),  # Continuum
    Source(field=("metadata", "session_id")),  # LiteLLM
    Source(field=("metadata", "user_id"), read=_claude_session),
    Source(field=("conversation", "id")),  # OpenAI Responses
    Source(field=("conversation",)),
    Source("baggage", read=_baggage),
    Source(field=("prompt_cache_key",)),
    Source(field=("user",)),
    Source("traceparent", read=_trace_id, weak=True),
)
THREAD_SOURCES = (
    Source(THREAD_HEADER),
    Source("x-claude-code-agent-id"),
    Source("thread-id"),  # Codex
    Source(field=_TRAJECTORY),
)
# A session that another one has started: a sub-agent. It is a thread of that one's program.
PARENT_SESSION_SOURCES = (
    Source("x-parent-session-id"),  # OpenCode
    Source("x-dynamo-parent-session-id"),
    Source(field=("nvext", "agent_context", "parent_session_id")),
    Source(field=("vllm_xargs", "agentic_context", "parent_program_id")),
)
PARENT_THREAD_SOURCES = (
    Source("x-claude-code-parent-agent-id"),
    Source(field=("nvext", "agent_context", "parent_trajectory_id")),
)
FINAL_SOURCES = (
    Source("x-dynamo-session-final"),
    Source(field=("nvext", "agent_context", "session_final")),
    Source(field=("vllm_xargs", "is_last_step")),  # Continuum
    Source(field=("is_last_step",)),
)
_PREVIOUS_RESPONSE = (Source(field=("previous_response_id",)),)
_TRAJECTORY_FINAL = Source(field=("nvext", "agent_context", "trajectory_final"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a client says of a call. None: nothing. `parents` is () when it says that the call has none.

    session_id         what it calls the program; `weak` if that may change within one
    parent_session_id  the session that started this one
    parent_thread_id   the thread that started this one
    final              the program ends with this call
    """

    session_id: str | None = None
    weak: bool = False
    thread_id: str | None = None
    call_id: str | None = None
    parents: tuple[str, ...] | None = None
    parent_session_id: str | None = None
    parent_thread_id: str | None = None
    previous_response_id: str | None = None
    final: bool = False


def read_claim(headers: Mapping[str, str], body: Mapping[str, Any]) -> Claim:
    """What the client says, each thing from the first source that names it.

    Raises HTTPError 400 for a bad id in one of our own headers; another convention's field that holds no usable id (empty,
    too long, not text) is passed over, because it may mean something else to its sender.
    """
    for name in (PROGRAM_HEADER, THREAD_HEADER, CALL_HEADER):
        if own := _header(headers, name):
            check_id(own)
    call_id = _header(headers, CALL_HEADER) or None
    parent = _header(headers, PARENT_HEADER)
    parents = None if parent is None else tuple(check_id(p.strip()) for p in parent.split(",") if p.strip())
    session, source = _first(PROGRAM_SOURCES, headers, body)
    thread, _ = _first(THREAD_SOURCES, headers, body)
    parent_session, _ = _first(PARENT_SESSION_SOURCES, headers, body)
    parent_thread, _ = _first(PARENT_THREAD_SOURCES, headers, body)
    final = _is_set(FINAL_SOURCES, headers, body)
    if source is not None and source.field == _TRAJECTORY:  # no session beside it: each trajectory is one
        parent_session = parent_session or parent_thread
        final = final or (parent_session is None and _is_set((_TRAJECTORY_FINAL,), headers, body))
    return Claim(
        session_id=session,
        weak=source is not None and source.weak,
        thread_id=thread,
        call_id=call_id,
        parents=parents,
        parent_session_id=None if parent_session == session else parent_session,
        parent_thread_id=None if parent_thread == thread else parent_thread,
        previous_response_id=_first(_PREVIOUS_RESPONSE, headers, body)[0],
        final=final,
    )


def check_id(value: str) -> str:
    """The id itself; raises HTTPError 400 unless it is 1 to 256 printable characters."""
    if not is_id(value):
        raise HTTPError(400, f"an id must be 1 to {MAX_ID_LENGTH} printable characters, not {value[:40]!r}")
    return value


def is_id(value: str) -> bool:
    """Whether this can be an id: 1 to 256 printable characters, so that it can stand in headers and logs."""
    return 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def _first(
    sources: tuple[Source, ...], headers: Mapping[str, str], body: Mapping[str, Any]
) -> tuple[str | None, Source | None]:
    for source in sources:
        if source.header not in headers if source.header else source.field[0] not in body:
            continue  # most clients say one of these things
        text = _header(headers, source.header) if source.header else _field(body, source.field)
        if isinstance(text, str) and (found := source.read(text)) and is_id(found := found.strip()):
            return found, source
    return None, None


def _is_set(sources: tuple[Source, ...], headers: Mapping[str, str], body: Mapping[str, Any]) -> bool:
    said = [s for s in sources if (s.header in headers if s.header else s.field[0] in body)]
    values = (_header(headers, s.header) if s.header else _field(body, s.field) for s in said)
    return any(v is True or v == 1 or (isinstance(v, str) and v.strip().lower() in {"true", "1", "yes"}) for v in values)


def _field(body: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = body
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """A header's text. Clients write UTF-8, ASGI frameworks read Latin-1."""
    value = headers.get(name)
    try:
        return value and value.encode("latin-1").decode()
    except UnicodeError:
        return value
