"""Local engines as child processes: start them, wait until they serve, stop them so that nothing is left.

    engines = await start_engines([EngineOptions(model=path, served_model_name="smollm2-135m")] * 2)
    try:
        ...                      # engine.url, engine.poll()
    finally:
        await stop(engines)

Every engine is a process group of its own with a pipe on its standard input that only this process holds open. When
this process ends in any way, kill -9 included, the pipe closes and `agentix.engine.child` ends the group.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2

from agentix.core.errors import ConfigError
from agentix.engine.command import EngineOptions, check_memory, engine_command, engine_environment
from agentix.engine.errors import EngineStartError, EngineStopError
from agentix.engine.process_group import end_group

__all__ = ["EngineOptions", "LocalEngine", "OnProgress", "start_engines", "state_dir", "stop", "wait_healthy"]

OnProgress = Callable[[str], None]
"""Told what is going on, one short line at a time."""

_HEALTH_POLL_S = 0.25
_PROGRESS_S = 1.0
_TAIL_LINES = 20
_TAIL_BYTES = 16_384
# "(EngineCore pid=42) INFO 11-30 09:00:00 [loader.py:7] Loading weights": the text says what vLLM is doing
_VLLM_INFO = re.compile(r"INFO \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]+\] )?(.{1,100})")


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """One engine that this process started. `url` has no path; the OpenAI routes are under `url`/v1."""

    engine_id: str
    url: str
    log_path: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """Process id of the API server, which is the id of its process group too."""
        return self.process.pid

    def poll(self) -> int | None:
        """None while the engine runs; its exit status (negative: the signal) once it has died."""
        return self.process.poll()

    def log_tail(self, num_lines: int = _TAIL_LINES) -> tuple[str, ...]:
        """The last lines of the engine's log that are not blank."""
        with self.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())[-num_lines:]

    def phase(self) -> str:
        """What the engine last said it is doing: its last INFO line, without the prefix; warnings are no phase."""
        said = _VLLM_INFO.findall("\n".join(self.log_tail()))
        return str(said[-1]) if said else "starting"


async def start_engines(
    options: Sequence[EngineOptions],
    *,
    on_progress: OnProgress | None = None,
    timeout_s: float = 600.0,
    log_dir: Path | None = None,
    first_number: int = 0,
) -> list[LocalEngine]:
    """Start one engine per entry, at the same time, and return when all are healthy: engine-`first_number` and so on.

    All or nothing: when one fails, or the caller is cancelled, every engine is stopped first. Raises ConfigError before
    anything starts (arguments, memory), EngineStartError after. Logs go to `log_dir`, by default a new `state_dir()`.
    """
    check_memory(options)
    directory = log_dir or state_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot create the directory of logs {directory}: {error.strerror}") from None
    engines: list[LocalEngine] = []
    waits: list[asyncio.Task[None]] = []
    try:
        ports = _free_ports([option.host for option in options])
        for number, (option, port) in enumerate(zip(options, ports, strict=True), start=first_number):
            engines.append(_spawn(f"engine-{number}", option, port, directory, num_engines=len(options)))
        waits = [asyncio.create_task(wait_healthy(engine, on_progress, timeout_s=timeout_s)) for engine in engines]
        await asyncio.gather(*waits)
    except BaseException:
        for wait in waits:
            wait.cancel()
        await stop(engines, grace_s=2.0)
        raise
    return engines


async def wait_healthy(engine: LocalEngine, on_progress: OnProgress | None = None, *, timeout_s: float) -> None:
    """Return once /health answers 200. Tells `on_progress` each new phase, at most once a second.

    Raises EngineStartError when the process exits or `timeout_s` passes. The engine is not stopped here.
    """
    began = told = time.monotonic()
    phase = ""
    async with httpx2.AsyncClient(trust_env=False, timeout=2.0) as client:  # a proxy has no business on loopback
        while not await _is_healthy(client, engine):
            now = time.monotonic()
            if (status := engine.poll()) is not None:
                raise _start_error(engine, f"{_death(status)} while starting")
            if now - began > timeout_s:
                raise _start_error(engine, f"is not healthy after {timeout_s:.0f} s")
            if on_progress and now - told >= _PROGRESS_S and (latest := engine.phase()) != phase:
                phase, told = latest, now
                on_progress(f"{engine.engine_id}: {phase}")
            await asyncio.sleep(_HEALTH_POLL_S)
    if on_progress:
        on_progress(f"{engine.engine_id}: healthy after {time.monotonic() - began:.0f} s")


async def stop(engines: Iterable[LocalEngine], *, grace_s: float = 10.0) -> None:
    """End the engines and every process they started. Afterwards nothing of their groups exists. Idempotent.

    A cancelled caller does not leave engines behind: the work runs in threads, which a closing event loop waits for.
    """
    await asyncio.gather(*(asyncio.to_thread(_stop_one, engine, grace_s) for engine in engines))


def state_dir() -> Path:
    """A directory for this run's logs: under $AGENTIX_STATE_DIR, $XDG_STATE_HOME/agentix or ~/.local/state/agentix."""
    chosen = os.environ.get("AGENTIX_STATE_DIR")
    xdg = os.environ.get("XDG_STATE_HOME")
    root = Path(chosen) if chosen else (Path(xdg) if xdg else Path.home() / ".local" / "state") / "agentix"
    return root.expanduser() / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _spawn(engine_id: str, options: EngineOptions, port: int, directory: Path, *, num_engines: int) -> LocalEngine:
    log_path = directory / f"{engine_id}.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            engine_command(options, port),
            env=engine_environment(options, num_engines=num_engines),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    host = f"[{options.host}]" if ":" in options.host else options.host
    return LocalEngine(engine_id, f"http://{host}:{port}", log_path, process)


def _stop_one(engine: LocalEngine, grace_s: float) -> None:
    pipe = engine.process.stdin
    if pipe is None or pipe.closed:  # stopped before; by now the process id may belong to somebody else
        return
    if left := end_group(engine.pid, grace_s=grace_s):
        raise EngineStopError(engine.engine_id, left)
    pipe.close()
    engine.process.wait()


def _free_ports(hosts: Sequence[str]) -> list[int]:
    """A port that is free now on each of these addresses of this machine. All are held until the last is found."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) for host in hosts]
        for each, host in zip(sockets, hosts, strict=True):
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]


async def _is_healthy(client: httpx2.AsyncClient, engine: LocalEngine) -> bool:
    try:
        return (await client.get(f"{engine.url}/health")).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


def _start_error(engine: LocalEngine, reason: str) -> EngineStartError:
    return EngineStartError(engine.engine_id, reason, log_path=engine.log_path, log_tail=engine.log_tail())


def _death(status: int) -> str:
    """An exit status in words."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
