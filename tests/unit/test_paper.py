"""The figures of the paper: how runs become numbers, and numbers become sentences. No picture is drawn."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from agentix.core.events import StepCompleted
from agentix.workload import Call, Program
from benchmarks.paper import __main__ as command
from benchmarks.paper import identical
from benchmarks.paper import point as point_module
from benchmarks.paper.figure import Numbers
from benchmarks.paper.figures import FIGURES
from benchmarks.paper.identical import Identical
from benchmarks.paper.observer import Observer
from benchmarks.paper.point import IDENTICAL_STEPS, Point, play
from benchmarks.paper.report import load, write_page
from benchmarks.paper.setup import PLAS, VLLM_OPT, systems_for
from benchmarks.paper.sharing import Sharing
from benchmarks.paper.sweep import play_all
from benchmarks.paper.throughput import Sustained, ratio, sustained, value_at


def test_the_rate_at_a_latency_is_read_off_a_line_through_logarithms() -> None:
    curve = [(1.0, 0.01), (2.0, 0.1), (4.0, 10.0)]
    assert sustained(math.sqrt(0.01 * 0.1), curve).rate_per_s == pytest.approx(1.5)
    assert sustained(1.0, curve).rate_per_s == pytest.approx(3.0)  # half of the way from 0.1 to 10
    assert sustained(1.0, curve).bound == ""


def test_a_latency_outside_the_sweep_gives_a_bound() -> None:
    curve = [(1.0, 0.01), (2.0, 0.1)]
    assert sustained(0.005, curve) == Sustained(1.0, "≤")
    assert sustained(0.2, curve) == Sustained(2.0, "≥")


def test_the_first_crossing_counts_where_a_curve_goes_up_and_down() -> None:
    assert sustained(0.1, [(1.0, 0.1), (2.0, 1.0), (3.0, 0.05)]).rate_per_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "text", "is_at_least_2"),
    [
        (Sustained(3.0), Sustained(2.0), "1.50×", False),
        (Sustained(4.0), Sustained(2.0), "2.00×", True),
        (Sustained(4.0, "≥"), Sustained(2.0), "≥2.00×", True),
        (Sustained(4.0), Sustained(2.0, "≤"), "≥2.00×", True),  # they carry even less
        (Sustained(4.0), Sustained(2.0, "≥"), "≤2.00×", False),
        (Sustained(4.0, "≥"), Sustained(2.0, "≥"), "–", False),
    ],
)
def test_bounds_of_rates_bound_their_ratio(ours: Sustained, theirs: Sustained, text: str, is_at_least_2: bool) -> None:
    assert str(ratio(ours, theirs)) == text
    assert ratio(ours, theirs).is_at_least(2.0) is is_at_least_2


def test_values_between_points_are_linear() -> None:
    assert value_at(0.75, [(0.5, 0.2), (1.0, 0.6)]) == pytest.approx(0.4)
    assert value_at(1.5, [(0.5, 0.2), (1.0, 0.6)]) is None


def test_calls_in_steps_are_weighted_by_time() -> None:
    observer = Observer()
    observer.record(StepCompleted(now=2.0, duration_s=2.0, call_ids=("a", "b", "c")), [])
    observer.record(StepCompleted(now=4.0, duration_s=1.0, call_ids=("a",)), [])  # nothing runs from 2 s to 3 s
    assert observer.mean_batch(1.0, 4.0) == pytest.approx((3 + 0 + 1) / 3)
    assert observer.batch_series(4.0, 2) == [(1.0, 3.0), (3.0, 0.5)]


def one_program(*calls: tuple[int, int]) -> Program:
    """A chain of calls of (prompt tokens, output tokens)."""
    chain = tuple(
        Call(call_id=f"c{i}", parents=(f"c{i - 1}",) if i else (), prompt_tokens=prompt, output_tokens=output)
        for i, (prompt, output) in enumerate(calls)
    )
    return Program(program_id="p", workload="test", calls=chain)


def test_an_outcome_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_module, "make_programs", lambda *_, **__: [one_program((10, 5), (20, 3))])
    outcome = play(Point(system=PLAS, workload="test", rate_per_s=math.inf, num_programs=1, model=IDENTICAL_STEPS))
    # 5 + 3 steps of 20 ms. A choice of the batch takes 2 ms and comes with each call's first step.
    assert outcome.makespan_s == pytest.approx(8 * 0.02 + 2 * 0.002)
    assert outcome.token_latency.mean == pytest.approx(outcome.makespan_s / 8)
    assert outcome.latency_by_kind == {"test": outcome.token_latency.mean}
    assert outcome.execute == pytest.approx(0.16 / 0.164)
    assert outcome.wait == pytest.approx(0.004 / 0.164)
    assert outcome.ratio_by_call[0] == pytest.approx((0.002 / 0.1 + 0.002 / 0.06) / 2)
    assert outcome.ratio_by_call[1:] == [None] * 5
    assert outcome.peak_host_tokens == 0


def test_agentix_counts_the_critical_path_where_programs_fork() -> None:
    policies = {workload: systems_for(workload)[-1].engine.scheduler.policy for workload in ("chat", "react", "tree", "mixed")}
    assert policies == {"chat": "plas", "react": "plas", "tree": "atlas", "mixed": "atlas"}


def test_every_point_is_played_once() -> None:
    tiny = Point(system=VLLM_OPT, workload="react", rate_per_s=1.0, num_programs=3)
    progress: list[tuple[int, int]] = []
    outcomes = play_all([tiny, tiny], num_processes=1, on_done=lambda *done: progress.append(done))
    assert list(outcomes) == [tiny]
    assert progress == [(1, 1)]


def test_a_figure_at_tiny_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identical, "_RATES", (1.2,))
    figure = Identical()
    points = figure.points(0.01)
    assert {point.num_programs for point in points} == {3}
    outcomes = play_all(points, num_processes=1, on_done=lambda *_: None)
    numbers = figure.numbers(outcomes, 0.01)
    # Three programs never fill 64 slots, so that every order is the same: a token takes a step, and a prompt too.
    values = {round(curve[0][1], 9) for curve in numbers["token_latency"].values()}
    assert len(values) == 1
    assert values.pop() < numbers["step_s"]
    findings = figure.findings(numbers)
    assert [finding.holds for finding in findings] == [False, False]


def test_sharing_within_and_across_programs() -> None:
    shares = Sharing().numbers({}, 0.1)["workloads"]
    assert min(value for value in shares["react"]["within"] if value is not None) > 0.9
    assert all(value == 0.0 for value in shares["chat"]["across"] if value is not None)  # conversations share nothing


def latency_numbers(agentix: float) -> Numbers:
    """Figure 12 for Mixed: 4 times the 0.01 of vLLM-opt is reached by vLLM at 0.5, vLLM-opt and MLFQ at 1, Agentix as told."""
    rates = {"vLLM": 0.5, "vLLM-opt": 1.0, "MLFQ": 1.0, "Agentix": agentix}
    curves = {label: [(0.1, 0.01), (rate, 0.04), (9.0, 1.0)] for label, rate in rates.items()}
    runs = {"MLFQ": [{"rate_per_s": 9.0, "hit_rate": 0.5}]}
    return {"mixed": {"workload": "mixed", "model": "llama-3.1-8b", "curves": {"mean": curves}, "runs": runs}}


@pytest.mark.parametrize(
    ("agentix", "holds", "aim"), [(1.9, False, "not reached"), (2.0, False, "reached"), (7.5, True, "reached")]
)
def test_the_claim_about_throughput_is_judged_by_the_numbers(agentix: float, holds: bool, aim: str) -> None:
    """The paper has 15 times vLLM, 4 times vLLM-opt and 5.5 times MLFQ; the aim is 4 and 2."""
    (finding,) = FIGURES["12"].findings(latency_numbers(agentix))
    assert finding.holds is holds
    assert f"at 0.040 s/token Agentix carries {agentix:.2f} programs/s: {agentix / 0.5:.2f}× vLLM (paper: 15)" in finding.text
    assert finding.text.endswith(f"Our aim of at least 4× vLLM and 2× vLLM-opt: {aim}.")


def test_the_page_says_what_fails(tmp_path: Path) -> None:
    document = {"figure": "12", "title": "T", "command": "C", "num_runs": 1, "seeds": [0], "core_s": 1.0, "machine": "M"}
    document |= {"python": "3", "numbers": latency_numbers(1.0)}
    (tmp_path / "figure-12.json").write_text(json.dumps(document), encoding="utf-8")
    write_page(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "**The claim does not hold here.**" in page
    assert "| 0 of 1 |" in page


def test_the_command_writes_numbers_and_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paper", "7", "--scale", "0.05", "--numbers-only", "--out", str(tmp_path)])
    command.main()
    saved = load(tmp_path, "7")
    assert saved is not None
    assert saved["numbers"]["workloads"].keys() == {"chat", "react", "tree"}
    assert (tmp_path / "README.md").exists()
    assert str(Path.cwd()) not in (tmp_path / "figure-7.json").read_text(encoding="utf-8")


def test_an_unknown_figure_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paper", "3"])
    with pytest.raises(SystemExit, match="unknown figure '3'; known: 12, 12b, 13"):
        command.main()


def test_what_the_figures_need_is_pinned_as_for_the_engine() -> None:
    """Both lock files go into one environment."""
    folder = Path(__file__).parents[2] / "requirements"
    engine, paper = (
        dict(
            line.split(";")[0].split("==") for line in (folder / name).read_text(encoding="utf-8").splitlines() if "==" in line
        )
        for name in ("engine-cpu.txt", "paper.txt")
    )
    both = engine.keys() & paper.keys()
    assert {"numpy", "typer", "hatchling"} <= both
    assert {name: engine[name] for name in both} == {name: paper[name] for name in both}
