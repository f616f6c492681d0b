"""Whole comparisons on stand-in engines: every arm gets the same, results are kept, and nothing is left running."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentix.ab.arms import find_arm
from agentix.ab.compare import Run
from agentix.ab.config import AbConfig, Case, Share
from agentix.ab.measure import WarmUpFailed
from agentix.ab.run import AbResult, run_ab
from agentix.bench.recorder import Progress
from agentix.core.errors import ConfigError
from agentix.serve import EngineDied

FAKE = Path(__file__).parents[1] / "ab_engine.py"
PARKING = {"num_parks": 3, "num_resumes": 2, "num_evictions": 1, "evicted_tokens": 40}  # as the stand-in tells
NUM_CALLS = 5  # of a run: two programs of two calls, one of one


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_STATE_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("PYTHONPATH", str(FAKE.parent))


class Observer:
    """Remembers; interrupts this process when `num_done` programs of a run whose name holds `stop_in` are done."""

    def __init__(self, *, stop_in: str | None = None, num_done: int = 1) -> None:
        self.begun: list[str] = []
        self.finished: list[tuple[str, bool]] = []
        self._stop_in = stop_in
        self._num_done = num_done

    def begin(self, case: Case, *, number: int, num_cases: int) -> None:
        self.begun.append(f"{number}/{num_cases} {case.name}")

    def phase(self, text: str) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        if self._stop_in and self._stop_in in self.begun[-1] and progress.num_programs_done == self._num_done:
            self._stop_in = None
            os.kill(os.getpid(), signal.SIGINT)

    def done(self, run: Run, *, was_there: bool) -> None:
        self.finished.append((run.case.name, was_there))


@pytest.fixture
def config(tmp_path: Path) -> AbConfig:
    shares = []
    recorded: dict[str, list[tuple[int, ...]]] = {"chat": [(2, 3)] * 4, "react": [(4,), (4,), (999,)]}
    for kind, lengths in recorded.items():
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("".join(program(kind, number, of_calls) for number, of_calls in enumerate(lengths)))
        shares.append(Share(trace=path, num_programs={"chat": 2, "react": 1}[kind]))
    return AbConfig(
        model="a-model",
        workload=tuple(shares),
        out=tmp_path / "out",
        arms=(find_arm("stock-fcfs", {}), find_arm("plas", {"quanta_s": [0.5]})),
        rates_per_s=(50.0,),
        num_repeats=1,
        vllm_args=("--max-num-seqs", "2"),
        engine_command=(sys.executable, str(FAKE)),
        start_timeout_s=30.0,
    )


def program(kind: str, number: int, lengths: tuple[int, ...]) -> str:
    calls = [
        {
            "call_id": f"c{index}",
            "parents": [f"c{index - 1}"] if index else [],
            "prompt_tokens": 10,
            "output_tokens": num_tokens,
            "messages": [{"role": "user", "content": kind}],
        }
        for index, num_tokens in enumerate(lengths)
    ]
    return json.dumps({"program_id": f"{kind}-{number}", "workload": kind, "calls": calls}) + "\n"


def load(config: AbConfig, name: str) -> Any:
    return json.loads(gzip.decompress((config.out / f"{name}.json.gz").read_bytes()))


def engines_left(tmp_path: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(process.joinpath("fd/1").readlink()).startswith(str(tmp_path)):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_every_arm_replays_the_same_on_an_engine_of_its_own(config: AbConfig, tmp_path: Path) -> None:
    priority = find_arm("stock-priority", {})
    observer = Observer()
    result = run_ab(replace(config, arms=(*config.arms, priority)), observer)
    assert (result.exit_code, result.is_complete) == (0, True)
    assert observer.begun == ["1/3 rate50-r1-stock-fcfs", "2/3 rate50-r1-plas", "3/3 rate50-r1-stock-priority"]
    stock, plas, numbered = (load(config, f"rate50-r1-{name}") for name in ("stock-fcfs", "plas", "stock-priority"))
    planned = [[(p["program_id"], p["arrival_s"], p["num_calls"]) for p in run["programs"]] for run in (stock, plas, numbered)]
    assert planned[0] == planned[1] == planned[2]
    assert len(planned[0]) == 3
    assert [run["num_skipped_too_long"] for run in (stock, plas)] == [1, 1]
    # The stand-in counts a preemption per answer: those of the warm-up are not the run's.
    assert stock["counters"] == {"prefix_hit_rate": 0.4, "num_preemptions": NUM_CALLS}
    assert plas["counters"] == {"prefix_hit_rate": 0.4, "num_preemptions": NUM_CALLS, **PARKING}
    assert stock["engine_version"] == "0.32.0"
    summary = json.loads((config.out / "summary.json").read_text())
    assert summary == json.loads(json.dumps(result.document))
    assert [run["file"] for run in summary["runs"]] == [f"{name}.json.gz" for name, _ in observer.finished]
    assert str(tmp_path) not in (config.out / "summary.json").read_text() + json.dumps(plas)
    assert engines_left(tmp_path) == []


def test_runs_that_are_there_are_not_done_again(config: AbConfig) -> None:
    run_ab(config, Observer())
    observer = Observer()
    result = run_ab(replace(config, resume=True, arms=(*config.arms, find_arm("plas-order", {}))), observer)
    assert observer.finished == [("rate50-r1-stock-fcfs", True), ("rate50-r1-plas", True), ("rate50-r1-plas-order", False)]
    assert {comparison["arm"] for comparison in result.document["comparisons"]} == {"stock-fcfs", "plas", "plas-order"}
    with pytest.raises(ConfigError, match="measured with other vllm_args"):
        run_ab(replace(config, resume=True, vllm_args=()), Observer())
    with pytest.raises(ConfigError, match="holds results"):
        run_ab(config, Observer())


def test_loads_are_multiples_of_the_saturation_that_is_measured_first(config: AbConfig) -> None:
    config = replace(config, rates_per_s=(), loads=(2.0,), arms=config.arms[:1])
    observer = Observer()
    result = run_ab(config, observer)
    burst = load(config, "saturation")
    assert burst["rate_per_s"] is None
    assert [program["arrival_s"] for program in burst["programs"]] == [0.0] * 3
    assert result.saturation_per_s == burst["summary"]["program_throughput_per_s"]
    assert result.saturation_per_s is not None
    assert load(config, "load2-r1-stock-fcfs")["rate_per_s"] == 2 * result.saturation_per_s
    assert observer.finished == [("rateinf-r1-stock-fcfs", False), ("load2-r1-stock-fcfs", False)]
    again = Observer()
    assert run_ab(replace(config, resume=True), again).saturation_per_s == result.saturation_per_s
    assert all(was_there for _, was_there in again.finished)


def test_an_interruption_keeps_what_is_complete_and_leaves_no_engine(config: AbConfig, tmp_path: Path) -> None:
    observer = Observer(stop_in="plas")
    result: AbResult = run_ab(config, observer)
    assert (result.exit_code, result.is_complete) == (130, False)
    assert observer.finished == [("rate50-r1-stock-fcfs", False)]
    assert sorted(path.name for path in config.out.iterdir()) == ["rate50-r1-stock-fcfs.json.gz", "summary.json"]
    assert json.loads((config.out / "summary.json").read_text())["complete"] is False
    assert engines_left(tmp_path) == []


def test_an_interruption_before_the_first_result_leaves_nothing(config: AbConfig, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_ab(config, Observer(stop_in="stock", num_done=0))
    assert list(config.out.iterdir()) == []
    assert engines_left(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (("--fake-refuse",), WarmUpFailed, "the engine fails a call: HTTP 400: the prompt is too long"),
        (("--fake-die-after", "10"), EngineDied, "(?s)the engine has died in the run.*the fake engine dies"),
    ],
)
def test_an_engine_that_fails_ends_the_comparison_with_its_words(
    config: AbConfig, tmp_path: Path, args: tuple[str, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_ab(replace(config, vllm_args=args), Observer())
    assert list(config.out.iterdir()) == []
    assert engines_left(tmp_path) == []


def test_bad_settings_of_the_replay_are_refused_before_an_engine_starts(config: AbConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="timeout must be above 0"):
        run_ab(replace(config, timeout_s=-1.0), Observer())
    assert not (tmp_path / "logs").exists()
