"""The gateway behind Ray Serve's own proxy, by the command that a user types; the engines are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from agentix.wire import KEY_VARIABLE
from gateway_system import CHAT

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
KEY = "k" * 40
PATIENCE_S = 240.0
SMALL = {"RAY_OVERRIDE_RESOURCES": '{"CPU": 2}', "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(80 * 2**20)}


@dataclass
class Served:
    """`serve run`, and a client of its proxy who has the key."""

    process: subprocess.Popen[bytes]
    client: httpx2.Client

    def chat(self, program_id: str, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/chat/completions", json={**CHAT, **body}, headers={"X-Agentix-Program": program_id})

    @property
    def engine(self) -> str:
        """Where its one engine is."""
        return str(self.client.get("/health").json()["engines"][0]["url"])

    def row(self, program_id: str) -> Any:
        return self.client.get(f"/v1/programs/{program_id}").json()

    def replicas(self) -> list[psutil.Process]:
        """The processes of the gateway."""
        return [each for each in descendants(self.process) if "".join(each.cmdline()).startswith("ray::ServeReplica")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Ray of its own with room for a replica and an engine; nothing is left of it after Ctrl-C."""
    directory = tmp_path_factory.mktemp("serve")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    arguments = {"model": "fake", "gpus_per_engine": 0}
    application = {
        "name": "agentix",
        "import_path": "ray_serve_app:app",
        "args": arguments,
        "deployments": [{"name": "Gateway", "graceful_shutdown_timeout_s": 60}],
    }
    config = {"http_options": {"host": "127.0.0.1", "port": port}, "applications": [application]}
    (directory / "config.yaml").write_text(json.dumps(config))
    environment = {
        **os.environ,
        **SMALL,
        KEY_VARIABLE: KEY,
        "AGENTIX_STATE_DIR": str(directory),
        "PYTHONPATH": str(TESTS),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_agent_register_timeout_ms": "120000",  # a machine that does more than this test
    }
    with (directory / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "ray.serve.scripts", "run", "--address", "local", str(directory / "config.yaml")],
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    headers = {"authorization": f"Bearer {KEY}"}
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
            there = Served(process, client)
            eventually(lambda: answers(there), (directory / "said").read_text)
            yield there
            left = descendants(process)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            _, alive = psutil.wait_procs(left, timeout=30)
            assert alive == []
    finally:
        process.kill()
        process.wait()


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def answers(there: Served) -> bool:
    assert there.process.poll() is None
    try:
        return there.client.get("/health").status_code == 200
    except httpx2.ConnectError:
        return False


def eventually(condition: Callable[[], bool], story: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)


def test_calls_are_answered_for_those_who_have_the_key(served: Served) -> None:
    answer = served.chat("asked")
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "héllo")
    assert {name: answer.headers[f"x-agentix-{name}"] for name in ("program", "engine", "level")} == {
        "program": "asked",
        "engine": "engine-0",
        "level": "0",
    }
    stranger = served.client.post("/v1/chat/completions", json=CHAT, headers={"authorization": "Bearer other"})
    assert (stranger.status_code, stranger.json()["error"]["type"]) == (401, "invalid_request_error")
    row = served.row("asked")
    assert (row["num_finished"], row["num_aborted"]) == (1, 0)


def test_a_stream_arrives_as_it_is_written(served: Served) -> None:
    with served.client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True, "seed": 1}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert token(next(lines)) == "hé"
        httpx2.post(f"{served.engine}/release/1", trust_env=False)  # what follows is not written before
        rest = [line for line in lines if line]
    assert [token(line) for line in rest[:2]] == ["ll", "o"]
    assert rest[-1] == "data: [DONE]"


def token(line: str) -> str:
    return str(json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["content"])


def test_a_client_that_leaves_ends_its_call_in_the_engine(served: Served) -> None:
    never = {**CHAT, "stream": True, "seed": 99}
    program = {"X-Agentix-Program": "left"}
    streams = f"{served.engine}/streams"
    with served.client.stream("POST", "/v1/chat/completions", json=never, headers=program) as answer:
        lines = answer.iter_lines()  # kept: the stream is closed with it
        assert token(next(lines)) == "hé"
        assert httpx2.get(streams, trust_env=False).text == "1"
    eventually(lambda: httpx2.get(streams, trust_env=False).text == "0")
    eventually(lambda: bool(served.row("left")["num_aborted"] == 1))


def test_a_killed_replica_is_started_again_with_another_engine(served: Served) -> None:
    before = int(httpx2.get(f"{served.engine}/pid", trust_env=False).text)
    [replica] = served.replicas()
    with served.client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True, "seed": 99}) as answer:
        lines = answer.iter_lines()
        assert token(next(lines)) == "hé"
        replica.kill()
        with pytest.raises(httpx2.RemoteProtocolError):  # broken off, so that nobody takes it for an answer
            list(lines)
    assert served.chat("after").status_code == 200  # it has waited for the next one
    after = int(httpx2.get(f"{served.engine}/pid", trust_env=False).text)
    assert after != before
    eventually(lambda: not psutil.pid_exists(before))
