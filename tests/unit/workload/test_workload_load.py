"""The loader: what it reads, and what it refuses with file, line and program."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.errors import AgentixError
from agentix.workload import Call, Program, TraceError, load_programs


def call(call_id: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"call_id": call_id, "parents": list(parents), "prompt_tokens": 3, "output_tokens": 2, **fields}


def program(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"program_id": "p", "workload": "w", "calls": list(calls), **fields}


def write(path: Path, *programs: Any) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in programs), encoding="utf-8")
    return path


def test_reads_every_field(tmp_path: Path) -> None:
    text = call("a", inherits=False, messages=[{"role": "user", "content": "hi"}], output_text="yo", tool_gap_s=1, after="tool")
    lengths = call("b", "a", new_tokens=1, reused_tokens=2, prefix_hash_ids=[4, 5], kind="value", step=1, agent="x")
    lengths |= {"prompt_parts": [["s", 1], ["u", 2]]}
    loaded = load_programs(write(tmp_path / "t.jsonl", program(text, lengths, meta={"k": 1}, arrival_s=0.5, block_size=16)))
    assert loaded == (
        Program(
            program_id="p",
            workload="w",
            meta={"k": 1},
            arrival_s=0.5,
            block_size=16,
            calls=(
                Call(
                    call_id="a",
                    parents=(),
                    prompt_tokens=3,
                    output_tokens=2,
                    messages=({"role": "user", "content": "hi"},),
                    output_text="yo",
                    tool_gap_s=1.0,
                    after="tool",
                ),
                Call(
                    call_id="b",
                    parents=("a",),
                    prompt_tokens=3,
                    output_tokens=2,
                    new_tokens=1,
                    reused_tokens=2,
                    prefix_hash_ids=(4, 5),
                    prompt_parts=(("s", 1), ("u", 2)),
                    kind="value",
                    step=1,
                    agent="x",
                ),
            ),
        ),
    )


def test_plain_and_gzip_are_the_same(tmp_path: Path) -> None:
    plain = write(tmp_path / "t.jsonl", program(call("a")))
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\n" + plain.read_bytes() + b"\n"))
    assert load_programs(plain) == load_programs(str(packed))


def test_nulls_count_as_absent_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", program(call("a", tool_gap_s=None, messages=None, novelty=1), meta=None))
    (loaded,) = load_programs(path)
    assert loaded.calls[0].tool_gap_s is None
    assert not loaded.has_text


BAD_PROGRAMS: dict[str, tuple[Any, str]] = {
    "not an object": ([1], "a JSON object is expected, not a list"),
    "no id": ({"workload": "w"}, "program_id is missing"),
    "empty id": (program(call("a"), program_id=""), "program_id is empty"),
    "no workload": ({"program_id": "p", "calls": [call("a")]}, "workload is missing"),
    "no calls": ({"program_id": "p", "workload": "w"}, "calls is missing"),
    "empty calls": (program(), "calls is empty"),
    "call is no object": (program(3), "a JSON object is expected, not a number"),  # type: ignore[arg-type]
    "no call id": (program({"parents": []}), "call_id is missing"),
    "no parents": (program({"call_id": "a"}), "parents is missing"),
    "parents not strings": (program(call("a") | {"parents": [1]}), "parents must be a list of strings"),
    "no tokens": (program({"call_id": "a", "parents": []}), "prompt_tokens is missing"),
    "negative tokens": (program(call("a", output_tokens=-1)), "output_tokens is negative: -1"),
    "boolean tokens": (program(call("a", output_tokens=True)), "output_tokens must be a whole number, not a boolean"),
    "fractional tokens": (program(call("a", prompt_tokens=1.5)), "prompt_tokens must be a whole number"),
    "negative gap": (program(call("a", tool_gap_s=-0.1)), "tool_gap_s is negative: -0.1"),
    "infinite gap": (program(call("a", tool_gap_s=10**400)), "tool_gap_s is not finite"),
    "gap in words": (program(call("a", tool_gap_s="1")), "tool_gap_s must be a number of seconds, not a string"),
    "negative keep": (program(call("a", keep=-1)), "keep is negative"),
    "negative block": (program(call("a", prefix_hash_ids=[-1])), "prefix_hash_ids is negative"),
    "negative arrival": (program(call("a"), arrival_s=-1), "arrival_s is negative"),
    "parts not pairs": (program(call("a", prompt_parts=[["x", 1, 2]])), "prompt_parts: every part is [name, tokens]"),
    "part without name": (program(call("a", prompt_parts=[[1, 3]])), "prompt_parts: every part is [name, tokens]"),
    "negative part": (program(call("a", prompt_parts=[["x", 4], ["y", -1]])), "prompt_parts is negative: -1"),
    "parts do not add up": (program(call("a", prompt_parts=[["x", 1]])), "prompt_parts add up to 1, prompt_tokens is 3"),
    "inherits in words": (program(call("a", inherits="no")), "inherits must be true or false, not a string"),
    "meta": (program(call("a"), meta=[]), "meta must be an object, not a list"),
    "messages": (program(call("a", messages={})), "messages must be a list, not an object"),
    "message without role": (program(call("a", messages=[{"content": "x"}])), "every message needs a role"),
    "message content": (program(call("a", messages=[{"role": "user", "content": 1}])), "content of a message must be text"),
    "duplicate call": (program(call("a"), call("a")), "call 'a': call id is used twice"),
    "missing parent": (program(call("a", "z")), "call 'a': parent 'z' does not exist"),
    "late parent": (program(call("a", "b"), call("b")), "call 'a': parent 'b' comes later in the list"),
    "own parent": (program(call("a", "a")), "calls form a cycle: a → a"),
    "cycle": (program(call("r"), call("a", "r", "b"), call("b", "a")), "calls form a cycle"),
    "parent twice": (program(call("a"), call("b", "a", "a")), "a parent is listed twice"),
    "inherits from nobody": (program(call("a", inherits=True, messages=[])), "inherits without a parent"),
    "inherits without text": (program(call("a"), call("b", "a", inherits=True)), "inherits without messages"),
}


@pytest.mark.parametrize(("bad", "problem"), BAD_PROGRAMS.values(), ids=BAD_PROGRAMS.keys())
def test_refuses_a_bad_program(tmp_path: Path, bad: Any, problem: str) -> None:
    path = write(tmp_path / "t.jsonl", program(call("a"), program_id="good"), bad)
    with pytest.raises(TraceError) as caught:
        load_programs(path)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{path}, line 2")
    assert (caught.value.path, caught.value.line) == (path, 2)
    if isinstance(bad, dict) and bad.get("program_id"):
        assert caught.value.program_id == "p"


@pytest.mark.parametrize("text", ["{", "", "nonsense", '{"program_id": NaN}', "[" * 100_000], ids=len)
def test_refuses_bad_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(program(call("a"))) + "\n\n" + (text or '"'), encoding="utf-8")
    with pytest.raises(TraceError, match="line 3: bad JSON"):
        load_programs(path)


def test_refuses_a_program_id_used_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", program(call("a")), program(call("a")))
    with pytest.raises(TraceError, match="line 2, program 'p': program id was used in line 1"):
        load_programs(path)


def test_refuses_what_is_not_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl.gz", program(call("a")))
    with pytest.raises(TraceError, match=r"t\.jsonl\.gz: not a gzip file"):
        load_programs(path)


def test_refuses_gzip_that_is_cut_short_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    whole = gzip.compress(json.dumps(program(call("a"))).encode())
    path.write_bytes(whole[:-12])
    with pytest.raises(TraceError, match="broken or cut short"):
        load_programs(path)
    path.write_bytes(whole[:10] + b"\xff" * 20)
    with pytest.raises(TraceError, match="broken or cut short"):
        load_programs(path)


def test_refuses_what_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n\xff\n")
    with pytest.raises(TraceError, match="line 2: not UTF-8"):
        load_programs(path)


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AgentixError, match="cannot be read: No such file"):
        load_programs(tmp_path / "none.jsonl.gz")
    with pytest.raises(TraceError, match="cannot be read"):
        load_programs(tmp_path)


@given(st.lists(st.lists(st.integers(0, 8), max_size=3, unique=True), min_size=1, max_size=8))
def test_accepts_exactly_the_lists_in_topological_order(
    tmp_path_factory: pytest.TempPathFactory, parents: list[list[int]]
) -> None:
    calls = [call(f"c{index}", *(f"c{p}" for p in listed)) for index, listed in enumerate(parents)]
    path = write(tmp_path_factory.mktemp("trace") / "t.jsonl", program(*calls))
    if all(p < index for index, listed in enumerate(parents) for p in listed):
        assert [c.call_id for c in load_programs(path)[0].calls] == [c["call_id"] for c in calls]
    else:
        with pytest.raises(TraceError, match=r"cycle|comes later|does not exist"):
            load_programs(path)
