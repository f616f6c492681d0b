"""A batch under way: so many jobs at once, again if they fail, no longer than their group needs them."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentix import client
from agentix.offline.config import OfflineConfig
from agentix.offline.errors import HOPELESS, GiveUp
from agentix.offline.job import Job, Session, start_order
from agentix.offline.results import Result, ResultsFile, Status

_MAX_RETRY_S = 60.0


class DropsPrograms(Protocol):
    """What a batch needs of a gateway while it runs."""

    async def drop(self, program_id: str) -> None:
        """Abort the program's calls and end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is, in jobs. What was done before a resumption counts as done."""

    num_jobs: int
    num_done: int
    num_running: int
    num_failed: int


class Batch:
    """The jobs of one run. One event loop, no locks; `results` grows as jobs end, and the file with it.

    On cancellation every running program is dropped at the gateway, then it raises; what has ended stays in the file.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        config: OfflineConfig,
        *,
        gateway: DropsPrograms,
        file: ResultsFile,
        on_result: Callable[[Result, Progress], None] | None = None,
    ) -> None:
        done = file.done
        self.results: list[Result] = []
        self._waiting = deque(job for job in start_order(jobs) if job.job_id not in done)
        self._config = config
        self._timeout_s = None if config.timeout_s == math.inf else config.timeout_s
        self._gateway = gateway
        self._file = file
        self._on_result = on_result
        self._num_jobs = len(jobs)
        self.num_skipped = len(jobs) - len(self._waiting)
        self._running: dict[str, tuple[Job, asyncio.Task[Result]]] = {}
        self._cancelled: set[str] = set()
        ended_well = {i for i, result in done.items() if result.status is Status.OK}
        self._num_ok = Counter(job.group for job in jobs if job.job_id in ended_well)

    async def run(self, concurrency: int) -> None:
        """Run what is left, at most `concurrency` jobs at once."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(concurrency, len(self._waiting))):
                workers.create_task(self._work())

    def progress(self) -> Progress:
        """How far it is now."""
        num_running = len(self._running)
        return Progress(
            num_jobs=self._num_jobs,
            num_done=self._num_jobs - len(self._waiting) - num_running,
            num_running=num_running,
            num_failed=sum(result.status is Status.FAILED for result in self.results),
        )

    async def _work(self) -> None:
        while self._waiting:
            job = self._waiting.popleft()
            if self._has_enough(job.group):
                self._record(Result(job_id=job.job_id, status=Status.NOT_NEEDED, group=job.group))
            else:
                await self._run(job)

    async def _run(self, job: Job) -> None:
        task = asyncio.create_task(self._attempts(job))
        self._running[job.job_id] = job, task
        try:
            await asyncio.wait({task})
        finally:
            has_ended = task.done()
            if not has_ended:  # this worker is cancelled: the batch is given up
                task.cancel()
                await asyncio.wait({task})
            del self._running[job.job_id]
            if has_ended:
                self._record(self._outcome(job, task))

    def _outcome(self, job: Job, task: asyncio.Task[Result]) -> Result:
        if not task.cancelled():
            return task.result()
        status, error = Status.NOT_NEEDED, None
        if job.job_id not in self._cancelled:
            status, error = Status.FAILED, "the job cancelled itself"
        return Result(job_id=job.job_id, status=status, group=job.group, error=error)

    async def _attempts(self, job: Job) -> Result:
        """Try until it ends well, is hopeless, or has been tried often enough."""
        began_s = time.monotonic()
        for attempt in range(1, self._config.attempts + 1):
            result, is_hopeless = await self._attempt(job, attempt, began_s)
            if result.status is Status.OK or is_hopeless or attempt == self._config.attempts:
                break
            await asyncio.sleep(min(_MAX_RETRY_S, self._config.retry_s * 2 ** (attempt - 1)))
        return result

    async def _attempt(self, job: Job, attempt: int, began_s: float) -> tuple[Result, bool]:
        value: Any = None
        error: str | None = None
        is_hopeless = is_over = False
        with client.program(job.name) as program:
            session = Session(base_url=f"{self._config.root}/v1", program_id=program.id, attempt=attempt)
            try:
                async with asyncio.timeout(self._timeout_s):
                    value = await job.run(session)
                is_over = True
            except Exception as problem:  # whatever a job raises is its own failure
                error = f"{type(problem).__name__}: {problem}"[:1000]
                is_hopeless = isinstance(problem, GiveUp) or getattr(problem, "status_code", None) in HOPELESS
            finally:
                if not is_over:
                    await self._gateway.drop(program.id)
        result = Result(
            job_id=job.job_id,
            status=Status.OK if error is None else Status.FAILED,
            group=job.group,
            program_id=program.id,
            attempts=attempt,
            duration_s=time.monotonic() - began_s,
            value=value,
            error=error,
        )
        return result, is_hopeless

    def _record(self, result: Result) -> None:
        try:
            self._file.write(result)
        except (TypeError, ValueError) as problem:
            error = f"the job's result is not JSON: {problem}"
            result = replace(result, status=Status.FAILED, value=None, error=error)
            self._file.write(result)
        self.results.append(result)
        if result.status is Status.OK and result.group is not None:
            self._num_ok[result.group] += 1
            if self._has_enough(result.group):
                self._cancel_rest(result.group)
        if self._on_result is not None:
            self._on_result(result, self.progress())

    def _has_enough(self, group: str | None) -> bool:
        return group is not None and self._num_ok[group] >= self._config.enough

    def _cancel_rest(self, group: str) -> None:
        for job, task in self._running.values():
            if job.group == group and not task.done():
                self._cancelled.add(job.job_id)
                task.cancel()
