"""A batch under way: how many at once, retries, groups, interruption. No network: jobs do what a test tells them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import agentix
from agentix.client.context import current
from agentix.offline import GiveUp, Job, OfflineConfig, Progress, Result, Session, Status
from agentix.offline.batch import Batch
from agentix.offline.results import ResultsFile


class DropList:
    """A gateway that notes which programs it was told to drop."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    async def drop(self, program_id: str) -> None:
        await asyncio.sleep(0)
        self.dropped.append(program_id)


class Refused(Exception):
    """As SDKs raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


class Bench:
    """A batch's surroundings. `seen` are the sessions of the jobs, by job, in order of their attempts."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.gateway = DropList()
        self.seen: dict[str, list[Session]] = {}
        self.num_running = 0
        self.most_running = 0
        self.told: list[tuple[Result, Progress]] = []

    def job(self, job_id: str, *steps: Any, group: str | None = None, size: float | None = None) -> Job:
        """A job whose attempts, one after another, do what the steps say: raise, wait for an event, or return the value."""
        left = list(steps)

        async def run(session: Session) -> Any:
            self.seen.setdefault(job_id, []).append(session)
            self.num_running += 1
            self.most_running = max(self.most_running, self.num_running)
            try:
                step = left.pop(0) if left else job_id
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                    return job_id
                await asyncio.sleep(0)
                return step
            finally:
                self.num_running -= 1

        return Job(job_id=job_id, run=run, group=group, size=size)

    async def run(self, *jobs: Job, concurrency: int = 9, **settings: Any) -> dict[str, Result]:
        """Run a batch to its end; returns the last result of each job."""
        config = OfflineConfig(gateway="http://gateway/v1", out=self.out, resume=True, **{"retry_s": 0.0, **settings})
        with ResultsFile(self.out) as file:
            batch = Batch(jobs, config, gateway=self.gateway, file=file, on_result=lambda *told: self.told.append(told))
            await batch.run(concurrency)
        return {each.job_id: each for each in batch.results}

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What stands in the file."""
        return [json.loads(line) for line in self.out.read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "out.jsonl")


async def test_results_are_written_and_told_as_they_come(bench: Bench) -> None:
    results = await bench.run(bench.job("a"), bench.job("b", {"x": 1}), concurrency=1)
    assert [(line["job_id"], line["status"], line["value"]) for line in bench.lines] == [
        ("a", "ok", "a"),
        ("b", "ok", {"x": 1}),
    ]
    assert [line["program_id"] for line in bench.lines] == [bench.seen[name][0].program_id for name in "ab"]
    assert results["b"].attempts == 1
    assert [progress for _, progress in bench.told] == [
        Progress(num_jobs=2, num_done=1, num_running=0, num_failed=0),
        Progress(num_jobs=2, num_done=2, num_running=0, num_failed=0),
    ]
    assert bench.gateway.dropped == []


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_no_more_run_at_once_than_may(bench: Bench, concurrency: int) -> None:
    await bench.run(*(bench.job(str(i)) for i in range(20)), concurrency=concurrency)
    assert bench.most_running == min(concurrency, 20)
    assert len(bench.lines) == 20


async def test_the_largest_starts_first(bench: Bench) -> None:
    await bench.run(bench.job("a", size=1), bench.job("b", size=3), bench.job("c", size=2), concurrency=1)
    assert [line["job_id"] for line in bench.lines] == ["b", "c", "a"]


async def test_each_attempt_is_a_program_of_its_own_and_a_failed_one_is_dropped(bench: Bench) -> None:
    results = await bench.run(bench.job("a", ValueError("no"), Refused(429), "yes"))
    sessions = bench.seen["a"]
    assert [session.attempt for session in sessions] == [1, 2, 3]
    assert len({session.program_id for session in sessions}) == 3
    assert {session.base_url for session in sessions} == {"http://gateway/v1"}
    assert bench.gateway.dropped == [session.program_id for session in sessions[:2]]
    assert (results["a"].status, results["a"].attempts, results["a"].value) == (Status.OK, 3, "yes")


async def test_a_job_that_never_ends_well_has_failed_and_the_others_go_on(bench: Bench) -> None:
    results = await bench.run(bench.job("a", *[ValueError("no")] * 5), bench.job("b"), attempts=2)
    assert (results["a"].status, results["a"].attempts, results["a"].error) == (Status.FAILED, 2, "ValueError: no")
    assert results["b"].status is Status.OK
    assert bench.told[-1][1].num_failed == 1


@pytest.mark.parametrize("problem", [GiveUp("wrong question"), Refused(400), Refused(404)])
async def test_what_would_fail_again_is_not_tried_again(bench: Bench, problem: Exception) -> None:
    results = await bench.run(bench.job("a", problem))
    assert (results["a"].status, results["a"].attempts) == (Status.FAILED, 1)


async def test_an_attempt_that_takes_too_long_is_cancelled_and_dropped(bench: Bench) -> None:
    results = await bench.run(bench.job("a", asyncio.Event(), "in time"), timeout_s=0.05)
    assert results["a"].value == "in time"
    assert bench.gateway.dropped == [bench.seen["a"][0].program_id]


async def test_a_result_that_is_no_json_is_a_failure(bench: Bench) -> None:
    results = await bench.run(bench.job("a", {1, 2}))
    assert results["a"].status is Status.FAILED
    assert "not JSON" in str(bench.lines[0]["error"])


async def test_a_job_that_cancels_itself_has_failed(bench: Bench) -> None:
    async def run(session: Session) -> None:
        raise asyncio.CancelledError

    results = await bench.run(Job(job_id="a", run=run), bench.job("b"))
    assert (results["a"].status, results["a"].error) == (Status.FAILED, "the job cancelled itself")
    assert results["b"].status is Status.OK


async def test_enough_of_a_group_cancels_the_rest_of_it(bench: Bench) -> None:
    """Two of five must end well: one has failed, two run for ever, one has not started. Another group is not touched."""
    never = asyncio.Event()
    jobs = [
        bench.job("a", never, group="g"),
        bench.job("b", never, group="g"),
        bench.job("c", GiveUp("no"), group="g"),
        bench.job("d", group="g"),
        bench.job("e", group="g"),
        bench.job("f", group="g"),
        bench.job("z", group="h"),
    ]
    results = await bench.run(*jobs, concurrency=3, enough=2)
    statuses = {name: each.status.value for name, each in results.items()}
    assert statuses == {"a": "not_needed", "b": "not_needed", "c": "failed", "d": "ok", "e": "ok", "f": "not_needed", "z": "ok"}
    assert "f" not in bench.seen
    running = {bench.seen[name][0].program_id for name in "ab"}
    assert running < set(bench.gateway.dropped)


async def test_a_resumed_batch_runs_what_is_left(bench: Bench) -> None:
    await bench.run(bench.job("a"), bench.job("b", GiveUp("no")), bench.job("g1", group="g"))
    again = Bench(bench.out)
    results = await again.run(
        again.job("a"), again.job("b"), again.job("g1", group="g"), again.job("g2", group="g"), again.job("c")
    )
    assert {name: each.status.value for name, each in results.items()} == {"b": "ok", "g2": "not_needed", "c": "ok"}
    assert again.seen.keys() == {"b", "c"}
    assert again.told[-1][1] == Progress(num_jobs=5, num_done=5, num_running=0, num_failed=0)


async def interrupted(bench: Bench, jobs: Sequence[Job], until: Callable[[], bool], concurrency: int) -> None:
    task = asyncio.create_task(_run(bench.run(*jobs, concurrency=concurrency)))
    while not until():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _run(batch: Awaitable[Any]) -> None:
    await batch


async def test_an_interrupted_batch_leaves_nothing_behind_and_keeps_what_has_ended(bench: Bench) -> None:
    never = asyncio.Event()
    jobs = [bench.job("a"), bench.job("b", never), bench.job("c", never), bench.job("d")]
    await interrupted(bench, jobs, lambda: len(bench.seen) == 3 and len(bench.told) == 1, concurrency=2)
    assert [line["job_id"] for line in bench.lines] == ["a"]
    assert sorted(bench.gateway.dropped) == sorted(bench.seen[name][0].program_id for name in "bc")
    assert bench.num_running == 0
    assert "d" not in bench.seen


async def test_a_job_runs_within_its_program(bench: Bench) -> None:
    agentix.uninstrument()
    places = []

    async def run(session: Session) -> None:
        place = current()
        places.append((place.program.id if place else None, session.program_id))
        assert session.headers()["x-agentix-program"] == session.program_id

    await bench.run(Job(job_id="a", run=run), Job(job_id="b", run=run))
    assert len(places) == 2
    assert all(inside == named for inside, named in places)
