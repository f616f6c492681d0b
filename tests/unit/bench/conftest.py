"""Fixtures of the benchmark's tests."""

from __future__ import annotations

import pytest

from fake_openai import FakeOpenAI, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def fake(clock: VirtualClock) -> FakeOpenAI:
    return FakeOpenAI(clock)
