"""The studies of the default policy, as commands: what is played in other processes is found there, and the page is written."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agentix.workload.save import save_programs
from benchmarks.policy.shapes import SHAPES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("module", "options"),
    [("benchmarks.policy", ("--traces", "tot_game24")), ("benchmarks.policy.adversarial", ("--shapes", "cold_start"))],
)
def test_it_plays_in_two_processes_and_writes_the_page(module: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """On a few programs of one call in place of the recorded ones."""
    save_programs(tmp_path / "tot_game24.jsonl.gz", SHAPES["long_answers"].make(random.Random(0), 0.05))
    out = tmp_path / "study.json"
    subprocess.run(
        [sys.executable, "-m", module, *options, "--jobs", "2", "--scale", "0.05", "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "AGENTIX_TRACE_DIR": str(tmp_path)},
        check=True,
        timeout=120,
        capture_output=True,
    )
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert {key.split(" ")[-1] for key in runs} >= {"fcfs", "plas", "default"}
    assert all(run["jct_s"] > 0 for run in runs.values())
    assert "`default`" in out.with_suffix(".md").read_text(encoding="utf-8")
