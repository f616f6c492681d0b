"""A real engine on Ray, by the command that a user types: a call is answered, also after the engine was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """`agentix serve --ray local`, and what it said when it was ready."""
    command = [sys.executable, "-m", "agentix", "serve", "tiny-random", "--ray", "local", "--port", "0", "--json"]
    command += ["--", "--max-model-len", "1024"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "AGENTIX_STATE_DIR": str(tmp_path), "RAY_agent_register_timeout_ms": "120000"},
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        assert line, (tmp_path / "stderr").read_text()
        yield process, json.loads(line)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_a_killed_engine_is_started_again_and_the_next_call_answered(ready: tuple[subprocess.Popen[str], Any]) -> None:
    process, said = ready
    with httpx2.Client(base_url=said["url"], trust_env=False, timeout=120) as client:
        assert said["engines"][0]["program_scheduling"]
        assert _chat(client).status_code == 200
        before = _servers(process)
        assert len(before) == 1
        before[0].kill()
        deadline = time.monotonic() + 300
        while not ((after := _servers(process)) and after != before and _chat(client).status_code == 200):
            assert time.monotonic() < deadline, "no engine came back"
            time.sleep(0.5)
        row = client.get("/programs/p").json()
        assert row["num_finished"] >= 2
    descendants = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    _, alive = psutil.wait_procs(descendants, timeout=30)
    assert alive == []


def _chat(client: httpx2.Client) -> httpx2.Response:
    body = {"model": "tiny-random", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    return client.post("/chat/completions", json=body, headers={"X-Agentix-Program": "p"})


def _servers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The API servers of engines that this command started, by way of Ray."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            is_server = "agentix.engine.child" in child.cmdline() and os.getpgid(child.pid) == child.pid  # not its guard
            if is_server and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found
