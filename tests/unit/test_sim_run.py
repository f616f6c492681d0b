"""`agentix simulate`: configuration, comparison of policies, result file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentix.cli import main
from agentix.core import ConfigError
from agentix.sim.run import SimulationConfig, run_policies

TRACE = {
    "program_id": "p",
    "workload": "test",
    "calls": [
        {"call_id": "a", "parents": [], "prompt_tokens": 100, "output_tokens": 20, "new_tokens": 100, "reused_tokens": 0},
        {"call_id": "b", "parents": ["a"], "prompt_tokens": 200, "output_tokens": 5, "new_tokens": 80, "reused_tokens": 120},
    ],
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(TRACE | {"program_id": f"p{n}"}) + "\n" for n in range(8)))
    return path


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Exit status, standard output and standard error of `agentix simulate`."""
    monkeypatch.setattr(sys, "argv", ["agentix", "simulate", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def test_policies_see_the_same_programs_and_the_file_says_what_was_done(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    arguments = f"--workload {trace} --programs 8 --rate inf --slots 2 --policy fcfs,srpt --seed 3 --json --out {out}"
    status, printed, _ = run(monkeypatch, capsys, *arguments.split())
    assert status == 0
    document = json.loads(printed)
    assert document == json.loads(out.read_text())
    fcfs, srpt = document["results"]
    assert (fcfs["policy"], srpt["policy"]) == ("fcfs", "srpt")
    for result in (fcfs, srpt):
        assert result["num_programs"]["ok"] == 8
        assert result["engines"]["prompt_tokens"] == 8 * 300
    assert srpt["distributions"]["jct_s"]["mean"] < fcfs["distributions"]["jct_s"]["mean"]
    assert document["config"]["workload"] == "trace.jsonl"
    assert str(tmp_path) not in printed


def test_a_table_has_a_row_per_policy(trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, printed, _ = run(monkeypatch, capsys, "--workload", str(trace), "--programs", "2", "--policy", "plas,atlas")
    assert status == 0
    rows = [line.split() for line in printed.splitlines()]
    assert [row[0] for row in rows if len(row) == 10] == ["policy", "plas", "atlas"]
    assert "…" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give either a workload file or a kind"),
        ("--generate chat --workload x", "give either a workload file or a kind"),
        ("--generate poetry", "unknown workload generator 'poetry'; known: chat, map_reduce, mixed, react, tree"),
        ("--generate chat --policy lottery", "unknown policy 'lottery'"),
        ("--generate chat --device abacus", "abacus"),
        ("--generate chat --model eliza", "eliza"),
        ("--generate chat --preemption forget", "unknown preemption 'forget'"),
        ("--generate chat --rate 0", "rate positive"),
        ("--generate chat --programs 1 --kv-tokens 16", "do not fit the KV cache of 16"),
        ("--workload /nowhere.jsonl", "/nowhere.jsonl: cannot be read"),
    ],
)
def test_bad_input_is_one_line(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run(monkeypatch, capsys, *arguments.split())
    assert status == 2
    assert message in error
    assert "Traceback" not in error


def test_a_seed_is_a_run(trace: Path) -> None:
    config = SimulationConfig(workload=trace, num_programs=8, rate_per_s=5.0, policies=("plas",))
    one, again = ([r.document() for r in run_policies(config, on_progress=lambda _: None)] for _ in range(2))
    assert one == again


def test_a_cache_smaller_than_a_block_is_refused() -> None:
    with pytest.raises(ConfigError, match="one block of 16"):
        SimulationConfig(generate="chat", kv_tokens=3)
