"""What the plug-in stands on is looked up in vLLM's source: each thing that another version may lack is named."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from agentix.engine.compat import IncompatibleEngine, check_source, missing, report
from agentix.engine.hooks import HOOKS, METRICS_HOOKS, Hook

SOURCE = """
from abc import abstractmethod

class Engine:
    limit: int = 3
    PAUSED = "paused"

    def __init__(self, config):
        self.running = []
        self.waiting, self.parked = [], {}

    @property
    def usage(self):
        return self.running.size

    def preempt(self, request, now, *, drop=False): ...

    def add(self, request, priority=0): ...

class Queue:
    def __init__(self): ...

    @abstractmethod
    def push(self, request): ...

    @abstractmethod
    def peek(self): ...

def start(engine): ...
"""


def lacking(tmp_path: Path, hook: Hook, source: str = SOURCE) -> list[str]:
    (tmp_path / "engine.py").write_text(source)
    return list(missing(tmp_path, [hook]))


def hook(owner: str = "Engine", **what: tuple[str, ...]) -> Hook:
    return Hook(file="engine.py", owner=owner, **what)


def test_names_are_fields_members_methods_and_what_methods_set(tmp_path: Path) -> None:
    assert lacking(tmp_path, hook(has=("limit", "PAUSED", "running", "waiting", "parked", "usage", "add"))) == []
    assert lacking(tmp_path, hook("", has=("start", "Engine"))) == []
    assert lacking(tmp_path, hook(has=("size",))) == ["engine.py: Engine has no size"]
    assert lacking(tmp_path, hook(has=("config",))) == ["engine.py: Engine has no config"]
    assert lacking(tmp_path, hook("", has=("stop",))) == ["engine.py has no stop"]


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("preempt(request, now)", True),
        ("preempt(request, now=n, drop=d)", True),
        ("preempt(request)", False),  # `now` is required
        ("preempt(request, now, drop)", False),  # by keyword alone
        ("preempt(request, now, stale=s)", False),
        ("add(request)", True),
        ("add(request, priority, extra)", False),
    ],
)
def test_a_method_must_take_the_plug_in_s_call(tmp_path: Path, call: str, fits: bool) -> None:
    name = call.partition("(")[0]
    assert lacking(tmp_path, hook(takes=(call,))) == ([] if fits else [f"engine.py: Engine.{name} cannot be called as {call}"])


def test_a_method_that_takes_anything_takes_the_call(tmp_path: Path) -> None:
    source = "class Engine:\n    def preempt(self, *args, **kwargs): ..."
    assert lacking(tmp_path, hook(takes=("preempt(request, now, drop=d)",)), source) == []


def test_an_overridden_method_may_have_no_parameter_that_ours_lacks(tmp_path: Path) -> None:
    assert lacking(tmp_path, hook(overrides=("add(request, priority)",))) == []
    assert lacking(tmp_path, hook(overrides=("add(request)", "stop()"))) == [
        "engine.py: Engine.add has other parameters than add(request)",
        "engine.py: Engine has no method stop",
    ]


def test_a_class_that_is_replaced_may_have_no_method_that_ours_lacks(tmp_path: Path) -> None:
    assert lacking(tmp_path, hook("Queue", only=("push", "peek", "pop"))) == []
    assert lacking(tmp_path, hook("Queue", only=("push",))) == [
        "engine.py: Queue has a method peek, which the plug-in's own lacks"
    ]


def test_a_missing_class_and_a_missing_file_are_named_once(tmp_path: Path) -> None:
    assert lacking(tmp_path, hook("Scheduler", has=("a", "b"))) == ["engine.py has no class Scheduler"]
    nowhere = Hook(file="v2/engine.py", owner="Engine", has=("a",))
    assert list(missing(tmp_path, [nowhere, nowhere])) == ["no readable file v2/engine.py"]
    assert lacking(tmp_path, hook(has=("a",)), "class Engine") == ["no readable file engine.py"]


def test_another_vllm_is_refused_with_everything_that_it_lacks(tmp_path: Path) -> None:
    scheduler = tmp_path / "vllm/v1/core/sched/scheduler.py"
    scheduler.parent.mkdir(parents=True)
    scheduler.write_text("class Scheduler:\n    def add_request(self, request, trace): ...")
    (tmp_path / "vllm/_version.py").write_text("__version__ = version = '0.9.9'\n")
    with pytest.raises(IncompatibleEngine, match=r"vLLM 0\.9\.9 .* without --scheduler-cls") as caught:
        check_source(tmp_path / "vllm", "0.9.9")
    assert "; no readable file v1/request.py; " in str(caught.value)
    assert "Scheduler.add_request has other parameters than add_request(request)" in str(caught.value)
    assert "Scheduler has no kv_holding_waiting" in str(caught.value)
    fits, text = report(tmp_path)
    assert not fits
    assert text.startswith(f"vLLM 0.9.9 in {tmp_path}/vllm: the plug-in cannot live in it\n  missing: ")
    assert "  missing for its metrics: no readable file v1/metrics/stats.py" in text


def test_the_installed_vllm_has_everything() -> None:
    spec = find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    assert list(missing(Path(spec.origin).parent, (*HOOKS, *METRICS_HOOKS))) == []
