"""Which job starts first, which jobs and settings are refused, and how large a recorded program is taken to be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import ConfigError
from agentix.offline import Job, OfflineConfig, OfflineError, Session
from agentix.offline.job import check_jobs, start_order
from agentix.offline.replay import expected_work
from agentix.workload import Call, Program


async def nothing(session: Session) -> None:
    """Run."""


def job(job_id: str, size: float | None = None, group: str | None = None) -> Job:
    return Job(job_id=job_id, run=nothing, size=size, group=group)


def order(*jobs: Job) -> list[str]:
    return [each.job_id for each in start_order(jobs)]


def test_the_largest_starts_first_and_ties_stay_as_given() -> None:
    assert order(job("a", 1), job("b", 3), job("c", 2), job("d", 3)) == ["b", "d", "c", "a"]


def test_jobs_of_unknown_size_may_be_long() -> None:
    assert order(job("a", 9), job("b"), job("c")) == ["b", "c", "a"]


def test_a_group_stays_together_in_the_place_of_its_largest() -> None:
    jobs = job("a", 1, "g"), job("b", 3), job("c", 5, "g"), job("d", 4), job("e", 2, "g")
    assert order(*jobs) == ["a", "c", "e", "d", "b"]


@given(st.lists(st.tuples(st.none() | st.floats(0, 9), st.none() | st.sampled_from("gh")), max_size=12))
def test_every_job_starts_once_and_groups_are_never_apart(drawn: list[tuple[float | None, str | None]]) -> None:
    jobs = [job(str(i), size, group) for i, (size, group) in enumerate(drawn)]
    started = start_order(jobs)
    assert sorted(each.job_id for each in started) == sorted(each.job_id for each in jobs)
    for group in "gh":
        places = [place for place, each in enumerate(started) if each.group == group]
        assert places == list(range(min(places, default=0), max(places, default=-1) + 1))


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([], "there is no job to run"),
        ([job("a"), job("b"), job("a")], "two jobs have the id 'a'"),
        ([job("a", -1)], "job 'a': size must be 0 or more and finite, not -1"),
        ([job("a", math.inf)], "not inf"),
    ],
)
def test_jobs_that_make_no_batch_are_refused(jobs: list[Job], message: str) -> None:
    with pytest.raises(OfflineError, match=message):
        check_jobs(jobs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gateway": "localhost:8080"}, "gateway must be a URL"),
        ({"gateway": "http://user:secret@host"}, "without '\\?', '#' or a password"),
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"attempts": 0}, "attempts must be at least 1, not 0"),
        ({"enough": 0}, "enough must be at least 1, not 0"),
        ({"retry_s": -1.0}, "retry_s must be 0 or more and finite, not -1.0"),
        ({"timeout_s": 0.0}, "timeout_s must be above 0, not 0.0"),
        ({"out": Path("/nowhere/at/all.jsonl")}, "not a file in a folder that exists"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        OfflineConfig(**{"gateway": "http://localhost:8080", "out": tmp_path / "out.jsonl", **changes})


def test_an_older_results_file_is_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("{}\n")
    with pytest.raises(ConfigError, match="exists: say that the batch is to resume it"):
        OfflineConfig(gateway="http://localhost:8080/v1/", out=out)
    assert OfflineConfig(gateway="http://localhost:8080/v1/", out=out, resume=True).root == "http://localhost:8080"


def call(call_id: str, parents: tuple[str, ...], prompt_tokens: int, output_tokens: int, *, inherits: bool = False) -> Call:
    return Call(call_id=call_id, parents=parents, prompt_tokens=prompt_tokens, output_tokens=output_tokens, inherits=inherits)


def test_a_program_s_work_is_its_longest_path() -> None:
    """32 prompt tokens are as long as one answer token; what a call inherits is computed already."""
    calls = (
        call("a", (), 320, 100),  # 110
        call("b", ("a",), 420 + 64, 50, inherits=True),  # 110 + 52
        call("c", ("a",), 640, 40),  # 110 + 60
        call("d", ("b", "c"), 32, 9),  # 170 + 10
    )
    assert expected_work(Program(program_id="p", workload="test", calls=calls)) == 180.0
    assert expected_work(Program(program_id="p", workload="test", calls=calls[:2])) == 162.0
