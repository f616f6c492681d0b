"""What the client SDK tells servers about programs, seen from a test."""

from __future__ import annotations

from agentix.client import backend


def settle() -> None:
    """Wait until everything that was to be told so far has been told."""
    backend._in_background(int).result(timeout=5)
