"""What a batch consists of, and in which order it starts."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentix import client
from agentix.offline.errors import OfflineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a job is given: where to send its calls, and as which program.

    base_url    for an OpenAI client, with /v1
    program_id  fresh for every attempt; the name under which gateway and engines know it
    attempt     1 for the first
    """

    base_url: str
    program_id: str
    attempt: int

    def headers(self) -> dict[str, str]:
        """The headers of the next call, for a client that sends without httpx; ask once for each (docs/client.md)."""
        return client.headers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One program of a batch.

    job_id  its name in the results file; no two jobs share one
    run     runs it; what it returns must be JSON and is its result. It has failed if it raises
    size    how much work it is expected to be, in any unit that all jobs share; the largest start first. None: unknown
    group   jobs of one group are attempts at one thing: when `enough` of them have ended well, the rest are cancelled
    name    its class at the gateway
    """

    job_id: str
    run: Callable[[Session], Awaitable[Any]]
    size: float | None = None
    group: str | None = None
    name: str = "offline"


def start_order(jobs: Sequence[Job]) -> list[Job]:
    """Largest first, so that no long job is left for the end, when the engines have room for many; ties stay as given.

    A job of unknown size may be a long one: it goes before those that are known. Jobs of a group stay together, in the
    place of the largest: they share a prompt, and the sooner enough of them are over, the less the others compute.

    Source: longest processing time first, R. L. Graham, *Bounds on Multiprocessing Timing Anomalies*, SIAM J. Appl. Math.
    17(2), 1969: at most 4/3 of the shortest makespan on equal machines. `benchmarks.cluster` shows what it is worth here.
    """
    first: dict[str, int] = {}
    largest: dict[str, float] = {}
    for i, job in enumerate(jobs):
        key = _key(job)
        first.setdefault(key, i)
        largest[key] = max(largest.get(key, 0.0), math.inf if job.size is None else job.size)
    return sorted(jobs, key=lambda job: (-largest[_key(job)], first[_key(job)]))


def check_jobs(jobs: Sequence[Job]) -> None:
    """Raise OfflineError unless there are jobs, with ids of their own and sizes that are numbers."""
    if not jobs:
        raise OfflineError("there is no job to run")
    seen: set[str] = set()
    for job in jobs:
        if job.job_id in seen:
            raise OfflineError(f"two jobs have the id {job.job_id!r}")
        if job.size is not None and not 0 <= job.size < math.inf:
            raise OfflineError(f"job {job.job_id!r}: size must be 0 or more and finite, not {job.size}")
        seen.add(job.job_id)


def _key(job: Job) -> str:
    """A group's name, or one of the job's own."""
    return f"job {job.job_id}" if job.group is None else f"group {job.group}"
