"""Agentix: serving for LLM agents that schedules whole programs, not single requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentix.client import headers, instrument, program, uninstrument

__version__ = "0.1.0"

__all__ = ["__version__", "headers", "instrument", "program", "uninstrument"]


def __getattr__(name: str) -> Any:
    """The client SDK is imported when it is used: engines and commands need none of it."""
    if name in {"headers", "instrument", "program", "uninstrument"}:
        from agentix import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
