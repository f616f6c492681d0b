"""A whole batch: open, run, close. The doors that Python code and the command line use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentix.client.context import current
from agentix.offline.batch import Batch, Progress
from agentix.offline.config import PROGRAMS_PER_ENGINE, OfflineConfig
from agentix.offline.errors import OfflineError
from agentix.offline.job import Job, check_jobs
from agentix.offline.results import Result, ResultsFile, Status

OnResult = Callable[[Result, Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a run of a batch, in jobs. `num_skipped` were done before; `num_left` are not: interrupted."""

    num_ok: int
    num_failed: int
    num_not_needed: int
    num_skipped: int
    num_left: int
    makespan_s: float

    @property
    def exit_code(self) -> int:
        """For a command: 130 if it was interrupted, 1 if a job failed, else 0."""
        return 130 if self.num_left else 1 if self.num_failed else 0


async def run_jobs(
    jobs: Sequence[Job], config: OfflineConfig, *, on_result: OnResult | None = None, report_when_cancelled: bool = False
) -> Report:
    """Run the batch in this event loop. If it is cancelled, programs under way are dropped at the gateway, and it raises.

    `on_result` is told each result, as soon as it is on the disk. `report_when_cancelled`: a cancellation ends the batch early
    instead, and the report says how many jobs are left. Raises OfflineError if the batch cannot start.
    """
    try:
        from agentix.offline.gateway import open_gateway  # noqa: PLC0415 - the HTTP library is loaded only to run
    except ModuleNotFoundError as error:
        raise OfflineError(f"{error.name} is missing: pip install 'agentix[offline]'") from error
    check_jobs(jobs)
    if current() is not None:
        raise OfflineError("a batch cannot run within a program: its jobs would all be that program")
    async with open_gateway(config.root, config.api_key) as gateway:
        concurrency = config.concurrency or PROGRAMS_PER_ENGINE * await gateway.num_engines()
        with ResultsFile(config.out) as file:
            batch = Batch(jobs, config, gateway=gateway, file=file, on_result=on_result)
            began_s = time.monotonic()
            try:
                await batch.run(concurrency)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not report_when_cancelled or task is None:
                    raise
                task.uncancel()
            return _report(batch, time.monotonic() - began_s)


def run_offline(jobs: Sequence[Job], config: OfflineConfig, *, on_result: OnResult | None = None) -> Report:
    """The same, for code that has no event loop. Ctrl-C ends it early: the report says how many jobs are left."""
    return asyncio.run(run_jobs(jobs, config, on_result=on_result, report_when_cancelled=True))


def _report(batch: Batch, makespan_s: float) -> Report:
    count = {status: sum(result.status is status for result in batch.results) for status in Status}
    num_jobs = batch.progress().num_jobs
    return Report(
        num_ok=count[Status.OK],
        num_failed=count[Status.FAILED],
        num_not_needed=count[Status.NOT_NEEDED],
        num_skipped=batch.num_skipped,
        num_left=num_jobs - batch.num_skipped - len(batch.results),
        makespan_s=makespan_s,
    )
