"""`python -m benchmarks.gateway --quick`: the whole run, with processes of its own, in some seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.gateway.report import BEGIN, END

ROOT = Path(__file__).parents[2]


def test_a_quick_run_measures_every_arm(tmp_path: Path) -> None:
    numbers, page = tmp_path / "numbers.json", tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.gateway", "--quick", "--json", str(numbers), "--out", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(numbers.read_text(encoding="utf-8"))
    arms = measured["arms"]
    assert {name: arm["error"] for name, arm in arms.items()} == {"direct": None, "agentix": None}
    for arm in arms.values():
        for load in arm["rounds"][0].values():
            assert load["num_failed"] == 0, load["fault"]
            assert load["num_calls"] > 0
        assert arm["rounds"][0]["chunks"]["chunks_per_s"] > 0
    assert arms["agentix"]["memory"]["num_open"] == measured["plan"]["num_held"]
    assert arms["agentix"]["memory"]["held_mb"] > 10
    assert [row["filled"]["num_calls"] for row in arms["agentix"]["table"]] == [200, 300]
    assert "| agentix | **" in page.read_text(encoding="utf-8")
    assert "| agentix | **" in done.stdout


def test_a_peer_that_nobody_knows_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.gateway", "--peers", "nginx"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "unknown peer 'nginx'; known: litellm, vllm-router, smg" in done.stderr
