"""What is measured: no gateway, ours, and those of others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from benchmarks.gateway.mock_engine import BURST, MODEL
from benchmarks.gateway.peers import Peer
from benchmarks.gateway.process import BenchmarkError, read_line, started

_UP_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What calls go to. `pid`: the process, and the group, whose memory counts; None: there is none in between."""

    url: str
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One thing to measure. `start`: a server in front of the engine at this address, with a folder for its log."""

    name: str
    what: str
    start: Callable[[str, Path], AbstractContextManager[Server]]


def direct() -> Arm:
    """The engine itself."""

    @contextmanager
    def start(engine_url: str, work: Path) -> Iterator[Server]:
        yield Server(url=engine_url)

    return Arm(name="direct", what="no gateway", start=start)


def agentix(cpus: str | None, source: Path | None = None) -> Arm:
    """This gateway, as `agentix serve` starts it; `source`: an earlier version of it, whose packages are in this folder."""
    env = None if source is None else {**os.environ, "PYTHONPATH": str(source.absolute())}
    what = "`agentix serve --engine-url …`"

    @contextmanager
    def start(engine_url: str, work: Path) -> Iterator[Server]:
        command = [sys.executable, "-m", "agentix", "serve", "--engine-url", engine_url, "--port", "0", "--json"]
        log = work / "agentix.log"
        with started(command, cpus=cpus, log=log, env=env) as process:
            url = read_line(process, log)["url"].removesuffix("/v1")
            _wait_until_up(url, process, log)
            yield Server(url=url, pid=process.pid)

    if source is not None:
        return Arm(name="before", what=f"{what} of an earlier version", start=start)
    return Arm(name="agentix", what=what, start=start)


def other(peer: Peer, executable: Path, cpus: str | None) -> Arm:
    """Somebody else's gateway, from its own virtual environment, with nothing of this process's environment but PATH."""

    @contextmanager
    def start(engine_url: str, work: Path) -> Iterator[Server]:
        port = _free_port()
        command = [str(executable), *peer.arguments(engine_url, port, work)]
        log = work / f"{peer.name}.log"
        env = {"PATH": f"{executable.parent}:{os.environ['PATH']}", "HOME": str(work), **peer.env}
        with started(command, cpus=cpus, log=log, env=env, prints=False) as process:
            url = f"http://127.0.0.1:{port}"
            _wait_until_up(url, process, log)
            yield Server(url=url, pid=process.pid)

    return Arm(name=peer.name, what=f"`{peer.requirement}`", start=start)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(url: str, process: subprocess.Popen[str], log: Path) -> None:
    """Until a call is answered. Raises BenchmarkError if none is."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "seed": BURST}
    until_s = time.monotonic() + _UP_S
    said = "nothing"
    with httpx2.Client(trust_env=False, timeout=10.0) as client:
        while time.monotonic() < until_s and process.poll() is None:
            try:
                response = client.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": "Bearer none"})
            except httpx2.HTTPError as error:
                said = repr(error)
            else:
                if response.status_code == 200:
                    return
                said = response.text[:500]
            time.sleep(0.25)
    errors = log.read_text(encoding="utf-8", errors="replace")[-1000:]
    raise BenchmarkError(f"{_words(process.args)} does not answer: {said}\n{errors}")


def _words(command: object) -> str:
    """The command, without where programs and files lie on this machine: results are published."""
    words = command if isinstance(command, Sequence) and not isinstance(command, str) else [command]
    return " ".join(Path(word).name if word.startswith("/") else word for word in map(str, words))
