"""What every test relies on."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples every time, so that a run says something of what was changed. `--hypothesis-profile default` draws others.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """A shell lets commands that it starts in the background ignore Ctrl-C, and their children after them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
