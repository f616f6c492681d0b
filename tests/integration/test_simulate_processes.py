"""`agentix simulate` on several processes: the same bytes as on one, and nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

LONG = "--workload mixed --programs 5000 --rate 8 --seed 1,2,3 --jobs 2"  # minutes


def simulate(arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentix", "simulate", *arguments.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "three.json"]
    for jobs, path in zip((1, 3), files, strict=True):
        process = simulate(
            f"--workload react --programs 5 --rate 2,8 --policy fcfs,plas,mlfq --seed 1,2 --jobs {jobs} --out {path} "
            f"--gantt {path}.svg --trace {path}.trace"
        )
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    for suffix in ("", ".svg", ".trace"):
        one, three = (path.with_name(path.name + suffix).read_bytes() for path in files)
        assert one == three


def test_an_error_in_a_process_is_one_line() -> None:
    process = simulate("--workload chat --programs 2 --kv-tokens 16 --jobs 2")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert error.startswith("agentix: chat, program 'chat-")
    assert error.count("\n") == 1


def running(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Every process below this one, once both of those that play cases are there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        family = psutil.Process(process.pid).children(recursive=True)
        if sum("spawn_main" in " ".join(child.cmdline()) for child in family) == 2:
            return family
        time.sleep(0.05)
    raise TimeoutError("no processes")


@pytest.mark.parametrize("to_all", [False, True], ids=["to it alone", "to its group, as a terminal does"])
def test_ctrl_c_ends_all_of_them_quietly(to_all: bool, tmp_path: Path) -> None:
    process = simulate(f"{LONG} --out {tmp_path / 'o.json'}")
    family = running(process)
    if to_all:  # while they start
        os.killpg(process.pid, signal.SIGINT)
    else:  # in the middle of a case
        time.sleep(1)
        process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert psutil.wait_procs(family, timeout=10)[1] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_without_warning_it_leaves_nobody(number: signal.Signals) -> None:
    process = simulate(LONG)
    family = running(process)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_a_process_that_dies_is_told() -> None:
    process = simulate(LONG)
    victim = next(child for child in running(process) if "spawn_main" in " ".join(child.cmdline()))
    victim.kill()
    _, error = process.communicate(timeout=30)
    assert process.returncode == 2
    assert error.startswith("agentix: a process of the simulation died")
    assert error.count("\n") == 1
