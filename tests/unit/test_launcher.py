"""The launcher against a stand-in engine: healthy, dying, silent, stubborn, orphaned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.engine.errors import EngineStartError
from agentix.engine.launcher import EngineOptions, LocalEngine, start_engines, state_dir, stop
from agentix.engine.process_group import members

FAKE = Path(__file__).parents[1] / "engine_process.py"


def fake(*args: str) -> EngineOptions:
    return EngineOptions(model="m", served_model_name="m", vllm_args=args, command=(sys.executable, str(FAKE)))


def processes_of(log_dir: Path) -> list[str]:
    """Pids of all processes whose output goes to a log in `log_dir`: whatever group or parent they have."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(process.joinpath("fd/1").readlink()).startswith(str(log_dir)):
                found.append(process.name)
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


async def test_engines_start_with_ids_ports_and_logs_of_their_own_and_stop_twice(tmp_path: Path) -> None:
    said: list[str] = []
    engines = await start_engines([fake(), fake()], on_progress=said.append, timeout_s=30, log_dir=tmp_path)
    try:
        assert [e.engine_id for e in engines] == ["engine-0", "engine-1"]
        assert [e.log_path for e in engines] == [tmp_path / "engine-0.log", tmp_path / "engine-1.log"]
        assert len({e.url for e in engines}) == 2
        assert [e.poll() for e in engines] == [None, None]
        assert engines[0].phase() == "Loading weights"
        assert sum("healthy after" in line for line in said) == 2
    finally:
        await stop(engines)
    await stop(engines)
    assert processes_of(tmp_path) == []


async def test_an_engine_that_dies_while_starting_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError) as caught:
        await start_engines([fake("--fake-die", "no such model")], timeout_s=30, log_dir=tmp_path)
    assert "engine-0 exited with status 7" in str(caught.value)
    assert len(caught.value.log_tail) == 20
    assert caught.value.log_tail[-1] == "no such model"
    assert str(tmp_path / "engine-0.log") in str(caught.value)
    assert processes_of(tmp_path) == []


async def test_one_failure_stops_all(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match="engine-1 exited"):
        await start_engines([fake(), fake("--fake-die", "no memory")], timeout_s=30, log_dir=tmp_path)
    assert processes_of(tmp_path) == []


async def test_a_silent_engine_runs_out_of_time(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(EngineStartError, match="not healthy after 2 s"):
        await start_engines([fake("--fake-start-s", "60")], on_progress=said.append, timeout_s=2, log_dir=tmp_path)
    assert said == ["engine-0: Loading weights"]
    assert processes_of(tmp_path) == []


async def test_cancelling_the_start_stops_the_engines(tmp_path: Path) -> None:
    start = asyncio.create_task(start_engines([fake("--fake-start-s", "60")], log_dir=tmp_path))
    await asyncio.sleep(0.5)
    assert processes_of(tmp_path)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert processes_of(tmp_path) == []


async def test_stop_ends_what_ignores_sigterm_and_its_children(tmp_path: Path) -> None:
    [engine] = await start_engines([fake("--fake-stubborn")], timeout_s=30, log_dir=tmp_path)
    assert len(members(engine.pid)) == 3  # server, guard, grandchild
    await stop([engine], grace_s=0.3)
    assert engine.poll() == -signal.SIGKILL
    assert members(engine.pid) == []
    assert processes_of(tmp_path) == []


async def test_a_later_death_shows_in_poll_and_takes_the_rest_of_the_engine_along(tmp_path: Path) -> None:
    [engine] = await start_engines([fake("--fake-stubborn")], timeout_s=30, log_dir=tmp_path)
    os.kill(engine.pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: engine.poll() is not None and not processes_of(tmp_path))
    assert engine.poll() == -signal.SIGKILL
    await stop([engine])


LAUNCHER = f"""
import asyncio, pathlib, sys, time
from agentix.engine.launcher import EngineOptions, start_engines
command = (sys.executable, {str(FAKE)!r})
options = EngineOptions(model="m", served_model_name="m", vllm_args=("--fake-stubborn",), command=command)
asyncio.run(start_engines([options], log_dir=pathlib.Path(sys.argv[1])))
print("up", flush=True)
time.sleep(300)
"""


def test_no_engine_outlives_a_launcher_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path)], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"up\n"
        assert processes_of(tmp_path)
        launcher.kill()
    wait_until(lambda: not processes_of(tmp_path))


def test_the_engine_says_in_one_line_that_vllm_is_missing(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('operator does not exist')")
    done = _run_child(tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("agentix: ")
    assert "cannot import vLLM (RuntimeError: operator does not exist); install" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["launchers/api_server/entry", "openai/api_server"])
def test_the_engine_runs_the_server_of_new_and_old_vllm(tmp_path: Path, module: str) -> None:
    path = tmp_path / "vllm" / "entrypoints" / f"{module}.py"
    path.parent.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").touch()
    path.write_text("import sys\ndef main():\n    print(sys.argv[1:])\nif __name__ == '__main__':\n    main()\n")
    done = _run_child(tmp_path, "--port", "1")
    assert (done.returncode, done.stdout) == (0, "['--port', '1']\n"), done.stderr


def _run_child(python_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, by a launcher that lives on: standard input stays open."""
    read_end, write_end = os.pipe()
    try:
        return subprocess.run(
            [sys.executable, "-m", "agentix.engine.child", *args],
            env=os.environ | {"PYTHONPATH": str(python_path)},
            stdin=read_end,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AGENTIX_STATE_DIR": "/a"}, "/a"),
        ({"XDG_STATE_HOME": "/x"}, "/x/agentix"),
        ({"HOME": "/h"}, "/h/.local/state/agentix"),
    ],
)
def test_state_dir(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str) -> None:
    for name in ("AGENTIX_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(state_dir().parent) == expected
    assert state_dir().name.endswith(f"-{os.getpid()}")


def test_the_phase_is_the_last_information_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "(Worker pid=7) INFO 11-30 09:00:00 [model.py:7] Starting to load\n"
        "(Worker pid=7) WARNING 11-30 09:00:01 [x.py:1] odd thing\n  a detail\n"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    assert LocalEngine("engine-0", "", log, process).phase() == "Starting to load"
