"""Many cases on many cores."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread

from agentix.core.errors import AgentixError
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import CaseResult, run_case


class ProcessDied(AgentixError):
    """A process that played cases ended without a word."""


def run_cases(
    config: SimulationConfig, *, num_processes: int, on_done: Callable[[], None], with_timelines: bool = False
) -> list[CaseResult]:
    """Play every case; results come in the order of `config.cases()`, whatever the number of processes and their speed.

    `on_done` is called after each case. The first error of a case ends everything and is raised. However this call ends,
    and even if this process is killed, no process is left behind.
    """
    cases = config.cases()
    num_processes = min(num_processes, len(cases))
    if num_processes == 1:
        results = []
        for case in cases:
            results.append(run_case(config, case, with_timeline=with_timelines))
            on_done()
        return results
    with _executor(num_processes) as executor:
        with _blocked(signal.SIGINT):
            futures = [executor.submit(run_case, config, case, with_timeline=with_timelines) for case in cases]
        try:
            for future in as_completed(futures):
                future.result()
                on_done()
        except BrokenProcessPool:
            raise ProcessDied("a process of the simulation died; was there too little memory? Try fewer --jobs") from None
        return [future.result() for future in futures]


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _executor(num_processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, at once if it is left by an exception.

    They hold the reading end of a pipe to whose other end nobody writes. It closes when we close it or when this process
    is gone, for whatever reason; then they exit, in the middle of a case too.
    """
    context = get_context("spawn")  # a fork would copy the threads' locks, maybe held
    reader, writer = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(num_processes, mp_context=context, initializer=_end_with, initargs=(reader,))
    try:
        yield executor
        executor.shutdown()
    finally:
        writer.close()
        executor.shutdown(cancel_futures=True)
        reader.close()


def _end_with(lifeline: Connection) -> None:
    """Let this process end as soon as the other end of the pipe is closed."""

    def wait() -> None:
        try:
            lifeline.recv()
        except (EOFError, OSError):
            os._exit(1)

    Thread(target=wait, daemon=True).start()


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Keep a signal waiting. Processes started meanwhile never see it: Ctrl-C is for us, and we end them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
