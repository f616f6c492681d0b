"""The results file: what a batch goes on from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.offline import OfflineError, Result, Status
from agentix.offline.results import ResultsFile


def result(job_id: str, status: Status = Status.OK) -> Result:
    return Result(job_id=job_id, status=status, value={"text": "é\u2028"}, attempts=1, duration_s=0.5, program_id="p")


def test_what_was_written_is_done_unless_it_failed(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with ResultsFile(path) as file:
        assert file.done == {}
        for each in (result("a"), result("b", Status.FAILED), result("c", Status.NOT_NEEDED)):
            file.write(each)
    with ResultsFile(path) as file:
        assert file.done == {"a": result("a"), "c": result("c", Status.NOT_NEEDED)}
        file.write(result("b"))
    with ResultsFile(path) as file:
        assert file.done.keys() == {"a", "b", "c"}
    assert len(path.read_text().splitlines()) == 4


@given(cut=st.integers(0, 1000))
def test_a_file_that_was_cut_short_anywhere_is_read_up_to_its_last_whole_line(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "out.jsonl"
    lines = [result(name).line().encode() + b"\n" for name in "abcd"]
    whole = b"".join(lines)
    path.write_bytes(whole[:cut])
    num_whole = whole[:cut].count(b"\n")
    with ResultsFile(path) as file:
        assert [*file.done] == list("abcd"[:num_whole])
        file.write(result("z"))
    assert path.read_bytes() == b"".join(lines[:num_whole]) + result("z").line().encode() + b"\n"


@pytest.mark.parametrize(
    "line", ["hello", "[]", '{"job_id": "a"}', '{"job_id": "a", "status": "well"}', '{"x": 1, "status": "ok"}']
)
def test_a_file_of_something_else_is_named_and_left_alone(line: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(f"{result('a').line()}\n{line}\nlast words")
    before = path.read_bytes()
    with pytest.raises(OfflineError, match=r"notes\.txt, line 2: not a line of a results file"):
        ResultsFile(path)
    assert path.read_bytes() == before


def test_a_value_that_is_no_json_is_not_written(tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "out.jsonl") as file:
        for value in (math.nan, {1, 2}):
            with pytest.raises((TypeError, ValueError)):
                file.write(Result(job_id="a", status=Status.OK, value=value))
    assert (tmp_path / "out.jsonl").read_bytes() == b""
