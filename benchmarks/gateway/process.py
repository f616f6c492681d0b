"""Processes of the benchmark: started, held to some CPUs, measured, and ended with everything they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from agentix.core.errors import AgentixError
from agentix.engine.command import pinned
from agentix.engine.process_group import end_group, members

_ROOT = Path(__file__).parents[2]  # what `python -m benchmarks.…` is found from


class BenchmarkError(AgentixError):
    """Something that the benchmark needs did not work."""


def cpus() -> tuple[str | None, str | None]:
    """The core for the gateway, and those for everything else; (None, None) where processes cannot be held apart."""
    if not hasattr(os, "sched_getaffinity") or len(allowed := sorted(os.sched_getaffinity(0))) < 2:
        return None, None
    return str(allowed[-1]), ",".join(map(str, allowed[:-1]))


@contextmanager
def started(
    command: Sequence[str], *, cpus: str | None, log: Path, env: Mapping[str, str] | None = None, prints: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, in a group of its own that is ended with the block; standard error goes to `log`.

    `prints`: standard output is for `read_line`; else it goes to `log` too.
    """
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            pinned(command, cpus),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if prints else errors,
            stderr=errors,
            env=env,
            text=True,
            start_new_session=True,
            cwd=_ROOT,
        )
    try:
        yield process
    finally:
        end_group(process.pid, grace_s=5.0)
        process.communicate()


@contextmanager
def suspended(groups: Iterable[int]) -> Iterator[None]:
    """Process groups stand still during the block: a server with nothing to do takes time from others on its core as well."""
    groups = tuple(groups)
    try:
        for group in groups:
            _signal(group, signal.SIGSTOP)
        yield
    finally:
        for group in groups:
            _signal(group, signal.SIGCONT)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError):  # one that has ended
        os.killpg(group, number)


def read_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """The next line that a process prints, which is a JSON object. Raises BenchmarkError if it ends instead."""
    assert process.stdout is not None  # noqa: S101 - `started` makes the pipe
    line = process.stdout.readline()
    if not line:
        raise BenchmarkError(f"{process.args!r} ended: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
    said: dict[str, Any] = json.loads(line)
    return said


def memory_mb(pid: int) -> float:
    """Resident memory of a process group, in megabytes (10^6 bytes)."""
    return float(sum(psutil.Process(member).memory_info().rss for member in members(pid)) / 1e6)
