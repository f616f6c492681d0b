"""Preambles that differ from call to call and so break every prefix cache; taken out on request (docs/wire.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# (what it is, how it looks). Each is text that only its sender's own servers read.
VOLATILE = (
    # A billing line at the front of the system prompt, with a checksum of the request (anthropics/claude-code#68900).
    ("Claude Code billing header", re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n?")),
)


def normalise(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without volatile preambles at the beginning of its system prompt; a new object where it has any."""
    changed = dict(body)
    for key in ("system", "instructions"):
        if key in body:
            changed[key] = _clean(body[key])
    for key in ("messages", "input"):
        if isinstance(body.get(key), list):
            changed[key] = [_clean_message(message) for message in body[key]]
    return changed


def without_volatile(text: str) -> str:
    """A preamble's text without what is volatile at its beginning."""
    for _, pattern in VOLATILE:
        text = pattern.sub("", text)
    return text


def _clean_message(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("role") not in {"system", "developer"}:
        return message
    return {**message, "content": _clean(message.get("content"))}


def _clean(content: Any) -> Any:
    """A text, or a list of text parts, without what is volatile; a part that was nothing else goes."""
    if isinstance(content, str):
        return without_volatile(content)
    if not isinstance(content, list):
        return content
    cleaned = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        clean = without_volatile(text) if isinstance(text, str) else text
        if clean == text:
            cleaned.append(part)
        elif clean:
            cleaned.append({**part, "text": clean})
    return cleaned
