"""A real server of Redis's protocol for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.table_server import NAMES, TableServerProcess, find_server

Server = TableServerProcess


@contextmanager
def table_server() -> Iterator[Server]:
    """A running server, gone with the block. Where there is none to start the test is skipped, but in CI it fails."""
    program = find_server()
    if program is None:
        told = f"no server: set AGENTIX_TABLE_SERVER, or install {' or '.join(NAMES)} (`scripts/install.sh dev` as root does)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    with tempfile.TemporaryDirectory(prefix="agentix-") as folder:
        server = Server(program, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
