"""A process group as one thing: who is in it, and how to end it for certain.

An engine is several processes (API server, engine core, workers). Started in a group of their own they can be counted
and ended together, whoever crashed first. Zombies count as gone: in a container nobody may ever reap an orphan.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

_POLL_S = 0.05
_KILL_PATIENCE_S = 10.0  # SIGKILL is sure, but a process that frees gigabytes needs a moment


def members(pgid: int) -> list[int]:
    """Process ids of the living members of group `pgid`, without the caller. O(processes of the machine)."""
    return [pid for pid in psutil.pids() if pid != os.getpid() and _is_alive_in(pid, pgid)]


def end_group(pgid: int, *, grace_s: float) -> list[int]:
    """SIGTERM to the group, `grace_s` seconds of patience, then SIGKILL. Returns who is still there: nobody, normally."""
    left = members(pgid)
    for signum, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_PATIENCE_S)):
        if not left:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pgid, signum)
        left = _wait_until_gone(pgid, patience_s)
    return left


def _wait_until_gone(pgid: int, patience_s: float) -> list[int]:
    deadline = time.monotonic() + patience_s
    while (left := members(pgid)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left


def _is_alive_in(pid: int, pgid: int) -> bool:
    try:
        return os.getpgid(pid) == pgid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False
