"""What is asked for, and the runs that it makes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agentix.ab.arms import find_arm
from agentix.ab.config import AbConfig, Share, parse_workload
from agentix.core.errors import ConfigError

CHAT = Share(trace=Path("traces/chat.jsonl"), num_programs=5)


def config(**changes: Any) -> AbConfig:
    arms = tuple(find_arm(name, {}) for name in ("stock-fcfs", "plas", "atlas"))
    settings: dict[str, Any] = {"workload": (CHAT,), "arms": arms, "rates_per_s": (1.0,)}
    return AbConfig(**{"model": "m", "out": Path("out"), **settings, **changes})


@pytest.mark.parametrize(
    ("text", "num_programs", "expected"),
    [
        ("a", 7, [("a", 7)]),
        ("a:3, b:4", None, [("a", 3), ("b", 4)]),
        ("a:3,b:4", 7, [("a", 3), ("b", 4)]),
        ("a,b,c", 8, [("a", 3), ("b", 3), ("c", 2)]),
        ("a:2,b,c", 5, [("a", 2), ("b", 2), ("c", 1)]),
        ("dir/x:y.jsonl:2", None, [("dir/x:y.jsonl", 2)]),
        ("x:y.jsonl", 2, [("x:y.jsonl", 2)]),
    ],
)
def test_programs_are_shared_out(text: str, num_programs: int | None, expected: list[tuple[str, int]]) -> None:
    shares = parse_workload(text, num_programs)
    assert [(str(share.trace), share.num_programs) for share in shares] == expected


@pytest.mark.parametrize(
    ("text", "num_programs", "problem"),
    [
        ("", 3, "names no trace file"),
        ("a", None, "say how many programs"),
        ("a:2,b", None, "say how many programs"),
        ("a:2,b:2", 5, "5 programs cannot be shared out: 4 are given"),
        ("a:2,b", 2, "2 programs cannot be shared out: 2 are given to files, 1 files have no number"),
        ("a:0,b:2", None, "at least 1 program"),
    ],
)
def test_programs_that_cannot_be_shared_out_are_an_error(text: str, num_programs: int | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_workload(text, num_programs)


def test_arms_take_turns_and_each_repeat_has_its_seed() -> None:
    cases = config(num_repeats=4, seed=10, rates_per_s=(1.0, math.inf)).cases(None)
    at_rate_1 = [case for case in cases if case.rate_per_s == 1.0]
    assert [case.arm.name for case in at_rate_1] == [
        *("stock-fcfs", "plas", "atlas"),
        *("plas", "atlas", "stock-fcfs"),
        *("atlas", "stock-fcfs", "plas"),
        *("stock-fcfs", "plas", "atlas"),
    ]
    assert [(case.repeat, case.seed) for case in cases] == [(1, 10)] * 6 + [(2, 11)] * 6 + [(3, 12)] * 6 + [(4, 13)] * 6
    assert [case.name for case in cases[:4]] == [
        "rate1-r1-stock-fcfs",
        "rate1-r1-plas",
        "rate1-r1-atlas",
        "rateinf-r1-stock-fcfs",
    ]


def test_a_load_is_a_multiple_of_the_saturation() -> None:
    cases = config(rates_per_s=(), loads=(0.5, 2.0), num_repeats=1).cases(3.0)
    assert [(case.point, case.rate_per_s) for case in cases] == [("load0.5", 1.5)] * 3 + [("load2", 6.0)] * 3


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, False),
        ({"rates_per_s": (), "loads": (1.0,)}, True),
        ({"rates_per_s": (), "loads": (1.0,), "saturation_per_s": 2.0}, False),
        ({"rates_per_s": ()}, True),
    ],
)
def test_the_saturation_is_measured_if_nobody_says_it(changes: dict[str, Any], needed: bool) -> None:
    assert config(**changes).needs_saturation is needed


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"arms": (find_arm("plas", {}),) * 2}, "arms hold 'plas' twice"),
        ({"rates_per_s": (1.0, 1.0)}, "rates hold 1.0 twice"),
        ({"rates_per_s": (0.0,)}, "above 0, not 0.0"),
        ({"rates_per_s": (float("nan"),)}, "above 0, not nan"),
        ({"loads": (1.0,)}, "rates or loads, not both"),
        ({"saturation_per_s": 1.0}, "the saturation is for loads"),
        ({"rates_per_s": (), "loads": (1.0,), "saturation_per_s": 0.0}, "saturation must be above 0"),
        ({"num_repeats": 0}, "at least 1 repeat, not 0"),
        ({"vllm_args": ("--scheduling_policy=fcfs",)}, "choose stock-priority"),
        ({"vllm_args": ("--scheduler-cls", "x.Y")}, "cannot be given: --scheduler-cls"),
        ({"workload": ()}, "at least one"),
        ({"engine_cpus": "most"}, "numbers and ranges .* not 'most'"),
    ],
)
def test_bad_settings_are_refused_before_anything_starts(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(**changes)


def test_the_engine_of_every_arm_is_held_to_its_cpus() -> None:
    held = config(engine_command=("python", "-m", "engine"), engine_cpus="0")
    for arm in ("stock-fcfs", "plas"):
        assert held.engine_options(find_arm(arm, {}), "m").command == ("taskset", "-c", "0", "python", "-m", "engine")
    assert held.document()["engine_cpus"] == "0"


def test_results_hold_no_path_of_this_machine(tmp_path: Path) -> None:
    model = tmp_path / "tiny-llama"
    model.mkdir()
    args = ("--chat-template", str(tmp_path / "t.jinja"), f"--tokenizer={tmp_path / 'tok'}", "--max-num-seqs", "4")
    written = json.dumps(config(model=str(model), vllm_args=args).document())
    assert str(tmp_path) not in written
    assert '["--chat-template", "t.jinja", "--tokenizer=tok", "--max-num-seqs", "4"]' in written
    assert '"model": "tiny-llama"' in written
    assert config(model=str(model)).engine_options(find_arm("plas", {}), "/where/it/lies").served_model_name == "tiny-llama"
