"""Every test begins and ends uninstrumented, and no test speaks to a server: what would be told is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentix.client import backend, context, instrumentation


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, Any]]]:
    """(method, address, body) of every request about a session; the server at http://plain is no gateway.

    Each carries the key of the SDKs in these tests, `k`, or none if it is about calls of other clients.
    """
    requests: list[tuple[str, str, Any]] = []

    def ask(method: str, root: str, path: str, keys: Any, body: Any = None) -> int:
        assert keys in ({"authorization": "Bearer k"}, {"x-api-key": "k"}, {})
        requests.append((method, root + path, body))
        return 404 if root == "http://plain" else 200

    monkeypatch.setattr(backend, "_ask", ask)
    monkeypatch.setattr(instrumentation, "_state", instrumentation._State())
    monkeypatch.delenv("AGENTIX_URL", raising=False)
    context._warned.clear()
    yield requests
    instrumentation.uninstrument()
