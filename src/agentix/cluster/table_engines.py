"""Engines as all gateways know them: by address, because each gateway may call one by another id."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit


@lru_cache(maxsize=1024)
def address_of(url: str, host: str) -> str:
    """An engine's address as other machines know it: a loopback address means something else on each, so `host` says where."""
    name = urlsplit(url).hostname or ""
    is_loopback = name in {"localhost", "::1"} or name.startswith("127.")
    return f"{host} {url}" if is_loopback else url
