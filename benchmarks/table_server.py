"""A real server of Redis's protocol, on a socket of its own, that can be killed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis

from benchmarks.gateway.process import BenchmarkError

NAMES = ("valkey-server", "redis-server")


def find_server() -> str | None:
    """AGENTIX_TABLE_SERVER, or one on the path; None: there is none."""
    return os.environ.get("AGENTIX_TABLE_SERVER") or next(filter(None, map(shutil.which, NAMES)), None)


class TableServerProcess:
    """`url` stays the same whenever it is started. It keeps nothing on disk: started again it has forgotten everything.

    `folder`: of its socket, whose path must be short.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._socket = folder / "server.sock"
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """Its process; 0: it does not run."""
        return self._process.pid if self._process is not None else 0

    @property
    def client(self) -> redis.Redis:
        """A client of its own, to look at what is there."""
        return redis.Redis(unix_socket_path=str(self._socket), decode_responses=True)

    def start(self) -> None:
        """Start it, and wait until it answers. Raises BenchmarkError if it never does."""
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([self._program, *options], stdout=subprocess.DEVNULL, cwd=self._socket.parent)
        with self.client as client:
            for _ in range(500):
                try:
                    client.ping()
                except redis.ConnectionError:
                    time.sleep(0.01)
                else:
                    return
        self.kill()
        raise BenchmarkError(f"{self._program} does not answer")

    def kill(self) -> None:
        """Kill it where it stands."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._process = None

    def signal(self, signum: signal.Signals) -> None:
        """SIGSTOP: it is there, and answers nothing; SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signum)
