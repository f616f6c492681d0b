"""Written traces are read back as they were."""

from __future__ import annotations

import json
from pathlib import Path

from agentix.workload import Call, Program, load_programs, save_programs

PROGRAMS = (
    Program(
        program_id="p",
        workload="w",
        arrival_s=0.0,
        block_size=16,
        meta={"k": [1]},
        calls=(
            Call(
                call_id="a",
                parents=(),
                prompt_tokens=0,
                output_tokens=0,
                messages=({"role": "user", "content": "hé\u2028"},),
                output_text="",
                tool_gap_s=0.0,
            ),
            Call(
                call_id="b",
                parents=("a",),
                prompt_tokens=1,
                output_tokens=2,
                inherits=True,
                messages=(),
                prompt_parts=(("x", 1),),
            ),
        ),
    ),
    Program(program_id="q", workload="w", calls=(Call(call_id="a", parents=(), prompt_tokens=1, output_tokens=1),)),
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    for name in ("t.jsonl", "t.jsonl.gz"):
        save_programs(tmp_path / name, PROGRAMS)
        assert load_programs(tmp_path / name) == PROGRAMS


def test_defaults_are_left_out_and_equal_programs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("1.jsonl.gz", "2.jsonl.gz", "t.jsonl"):
        save_programs(tmp_path / name, PROGRAMS[1:])
    assert (tmp_path / "1.jsonl.gz").read_bytes() == (tmp_path / "2.jsonl.gz").read_bytes()
    call = {"call_id": "a", "parents": [], "prompt_tokens": 1, "output_tokens": 1}
    assert json.loads((tmp_path / "t.jsonl").read_text()) == {"program_id": "q", "workload": "w", "calls": [call]}
