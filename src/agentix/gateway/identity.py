"""Whose call is this? Program, thread, parents and call id, from headers and body (docs/wire.md)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.gateway.errors import HTTPError
from agentix.wire import CALL_HEADER, PARENT_HEADER, PROGRAM_HEADER, SESSION_HEADER, THREAD_HEADER

MAX_ID_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a call belongs to. `anonymous`: nothing named a program, so the call is a program of its own.

    `parents` is None when the client says nothing, () when it says that the call has none.
    """

    program_id: str
    call_id: str
    thread_id: str = ""
    parents: tuple[str, ...] | None = None
    anonymous: bool = False

    def key(self, call_id: str) -> str:
        """What a call of this program is called in the table, where all programs' calls are."""
        return f"{self.program_id}/{call_id}"


def identify(headers: Mapping[str, str], body: Mapping[str, Any]) -> Identity:
    """Read a call's identity; the first source that names a program wins.

    X-Agentix-Program, X-Session-ID, body `session_id`, body `user`, else one program per call. Raises HTTPError 400
    for an id that is empty, longer than 256 characters, or not printable.
    """
    program_id = (
        _header(headers, PROGRAM_HEADER)
        or _header(headers, SESSION_HEADER)
        or _text(body.get("session_id"))
        or _text(body.get("user"))
    )
    call_id = _header(headers, CALL_HEADER) or f"call-{uuid.uuid4().hex}"
    thread_id = _header(headers, THREAD_HEADER) or ""
    parent = _header(headers, PARENT_HEADER)
    parents = None if parent is None else tuple(p.strip() for p in parent.split(",") if p.strip())
    for value in (program_id or "-", call_id, thread_id or "-", *(parents or ())):
        check_id(value)
    return Identity(
        program_id=program_id or f"anonymous-{call_id}",
        call_id=call_id,
        thread_id=thread_id,
        parents=parents,
        anonymous=program_id is None,
    )


def check_id(value: str) -> str:
    """The id itself; raises HTTPError 400 unless it is 1 to 256 printable characters."""
    if not 0 < len(value) <= MAX_ID_LENGTH or not value.isprintable():
        raise HTTPError(400, f"an id must be 1 to {MAX_ID_LENGTH} printable characters, not {value[:40]!r}")
    return value


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """A header's text. Clients write UTF-8, ASGI frameworks read Latin-1."""
    value = headers.get(name)
    try:
        return value and value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _text(value: Any) -> str | None:
    """Text as a header could carry it, without spaces at its ends: ids go on as headers."""
    return (value.strip() or None) if isinstance(value, str) else None
