"""`agentix ab` on the command line: what is asked for, and what is shown."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import agentix.ab.run
from ab_runs import document
from agentix.ab.arms import STOCK_FCFS, find_arm
from agentix.ab.compare import read_run
from agentix.ab.config import AbConfig, Case, Share
from agentix.ab.display import Display
from agentix.ab.run import AbResult
from agentix.bench.recorder import Progress
from agentix.cli import main

Ask = Callable[..., tuple[int, AbConfig | None]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs the command line; gives its exit status and the configuration that it would have run."""

    def run(*arguments: str, result: AbResult | None = None) -> tuple[int, AbConfig | None]:
        asked: list[AbConfig] = []

        def run_ab(config: AbConfig, observer: object) -> AbResult:
            asked.append(config)
            return result or AbResult(document={}, runs=(), saturation_per_s=None, is_complete=True)

        monkeypatch.setattr(agentix.ab.run, "run_ab", run_ab)
        monkeypatch.setattr(sys, "argv", ["agentix", "ab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), asked[0] if asked else None

    return run


def test_everything_that_can_be_asked_for(ask: Ask) -> None:
    asked = ask(
        *("m", "--workload", "a.jsonl:25,b.jsonl", "--programs", "29", "--out", "o", "--arms", "stock-fcfs, atlas-order"),
        *("--load", "0.7,1.5", "--saturation", "0.2", "--repeat", "5", "--seed", "7", "--quanta", "1,2"),
        *("--starvation-ratio", "0", "--timeout", "60", "--max-model-len", "512", "--context-margin", "1.5"),
        *("--start-timeout", "9", "--engine-cpus", "0", "--resume", "--", "--max-num-seqs", "16"),
    )
    arms = (STOCK_FCFS, find_arm("atlas-order", {"quanta_s": [1.0, 2.0], "starvation_ratio": None}))
    assert asked == (
        0,
        AbConfig(
            model="m",
            workload=(Share(trace=Path("a.jsonl"), num_programs=25), Share(trace=Path("b.jsonl"), num_programs=4)),
            out=Path("o"),
            arms=arms,
            loads=(0.7, 1.5),
            saturation_per_s=0.2,
            num_repeats=5,
            seed=7,
            vllm_args=("--max-num-seqs", "16"),
            resume=True,
            timeout_s=60.0,
            max_model_len=512,
            context_margin=1.5,
            start_timeout_s=9.0,
            engine_cpus="0",
        ),
    )


def test_the_least_that_must_be_asked_for(ask: Ask) -> None:
    status, config = ask("m", "--workload", "a:2", "--out", "o", "--rate", "0.5,inf")
    assert status == 0
    assert config is not None
    assert [arm.name for arm in config.arms] == ["stock-fcfs", "default"]
    assert (config.rates_per_s, config.num_repeats, config.num_programs) == ((0.5, math.inf), 3, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--rate", "1", "--load", "1"), "one of --rate, --load and --find-saturation"),
        ((), "one of --rate, --load and --find-saturation"),
        (("--rate", "x"), "--rate must be numbers separated by commas, not 'x'"),
        (("--rate", "1", "--arms", "plas,magic"), "unknown arm 'magic'; known: "),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    ask: Ask, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    assert ask("m", "--workload", "a:2", "--out", "o", *arguments) == (2, None)
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(("num_failed", "is_complete", "status"), [(0, True, 0), (1, True, 1), (1, False, 130)])
def test_the_exit_status_tells_how_it_ended(
    ask: Ask, capsys: pytest.CaptureFixture[str], num_failed: int, *, is_complete: bool, status: int
) -> None:
    case = Case(arm=STOCK_FCFS, repeat=1, seed=0, rate_per_s=1.0)
    run = read_run(case, document(("chat", 2, 1.0), *[("chat", 2, None)] * num_failed))
    result = AbResult(document={"x": 1}, runs=(run,), saturation_per_s=0.25, is_complete=is_complete)
    assert ask("m", "--workload", "a:2", "--out", "o", "--rate", "1", "--json", result=result)[0] == status
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"x": 1}
    assert ("interrupted" in printed.err) is not is_complete
    assert ("1 calls of a run failed" in printed.err) is bool(num_failed)


def test_the_saturation_alone(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    result = AbResult(document={}, runs=(), saturation_per_s=0.25, is_complete=True)
    status, config = ask("m", "--workload", "a:2", "--out", "o", "--find-saturation", result=result)
    assert status == 0
    assert config is not None
    assert (config.cases(0.25), config.needs_saturation) == ([], True)
    assert capsys.readouterr().out == "saturation: 0.25 programs/s\n"


def test_a_log_file_gets_ten_lines_per_run_and_the_outcome() -> None:
    console = Console(file=io.StringIO(), width=200)
    shown = Display(console, None)
    case = Case(arm=find_arm("plas", {}), repeat=2, seed=3, rate_per_s=0.12345, load=1.5)
    shown.begin(case, number=4, num_cases=9)
    shown.phase("loading weights")
    for num_done in range(101):
        counts: dict[str, Any] = {"num_calls_in_flight": 3, "num_failed_calls": 0}
        shown.progress(Progress(num_programs=100, num_programs_done=num_done, **counts))
    shown.done(read_run(case, document(("chat", 10, 2.0))), was_there=False)
    first, *lines, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    headline = "run 4/9, repeat 2, load 1.5, 0.123 programs/s, plas: "
    assert first == headline + "starting"
    assert lines == [f"{headline}{n}0/100 programs, 3 calls in flight, 0 failed" for n in range(1, 11)]
    assert last == headline + "mean 200 ms/token, JCT 2 s, makespan 9 s"
