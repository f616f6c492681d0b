"""Result files to runs: the numbers are those of the files, and arms are told apart or refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from agentix.report.model import ReportError
from agentix.report.read import read_report
from agentix.sim.plan import SimulationConfig
from agentix.sim.processes import run_cases
from agentix.sim.report import Files, write_files
from result_files import ab_document, bench_document, simulation_document, written

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def test_a_benchmark_is_a_run_of_the_arm_that_its_label_names(tmp_path: Path) -> None:
    plas = written(tmp_path, "b.json", bench_document(1.0, 3.0))
    report = read_report([f"plas={plas}", plas])
    assert [run.key for run in report.runs] == [("plas", "1 programs/s", "seed 1"), ("b", "1 programs/s", "seed 1")]
    run = report.runs[0]
    assert run.groups["all"]["jct_s.mean"] == 2.0
    assert run.groups["all"]["makespan_s"] == 9.0
    assert run.groups["shorter half"]["jct_s.mean"] == 1.0
    assert run.samples["jct_s"] == [1.0, 3.0]
    assert run.samples["program_token_latency_s"] == [0.1, pytest.approx(0.3)]
    assert run.shares == {"tool gaps": 0.0, "client late": 0.0, "until the first token": 0.5, "answering": 0.5}
    assert [(call.sent_s, call.first_token_s, call.end_s) for call in run.calls] == [(0.0, 0.5, 1.0), (1.0, 2.5, 4.0)]


def test_repeats_of_a_benchmark_under_one_label_are_counted(tmp_path: Path) -> None:
    again = [f"a={written(tmp_path, f'{n}.json', bench_document(1.0, seed=seed))}" for n, seed in enumerate((1, 1, 2))]
    assert [run.repeat for run in read_report(again).runs] == ["seed 1", "seed 1 #2", "seed 2"]


def test_programs_that_failed_are_in_no_sample(tmp_path: Path) -> None:
    document = bench_document(1.0, 3.0)
    document["programs"][1] |= {"status": "failed", "jct_s": None, "program_token_latency_s": None}
    document["calls"][1] |= {"first_token_s": None, "end_s": None}
    document["summary"]["num_calls"]["failed"] = 1
    source = read_report([written(tmp_path, "x.json", document)]).sources[0]
    assert source.runs[0].samples["jct_s"] == [1.0]
    assert len(source.runs[0].calls) == 1
    assert source.warnings == ("1 calls failed; their programs are in no latency",)


def test_a_comparison_has_its_groups_and_distributions_where_the_runs_files_are(tmp_path: Path) -> None:
    path = written(tmp_path, "summary.json", ab_document(("fcfs", 1, 4.0), ("plas", 1, 2.0)))
    single = bench_document(2.0, 2.5, rate_per_s=3.0)
    (tmp_path / "load1.5-r1-plas.json.gz").write_bytes(gzip.compress(json.dumps(single).encode()))
    source = read_report([path]).sources[0]
    fcfs, plas = source.runs
    assert (fcfs.arm, fcfs.point, fcfs.repeat) == ("fcfs", "3 programs/s (1.5 × saturation)", "repeat 1")
    assert fcfs.groups["longer half"]["jct_s.mean"] == 8.0
    assert fcfs.samples == {}
    assert plas.groups["all"]["jct_s.mean"] == 2.0  # the summary's, not that of the file
    assert plas.samples["jct_s"] == [2.0, 2.5]
    assert source.warnings == ("files of single runs are missing: no distributions of those",)


def test_a_simulation_has_a_run_for_each_case(tmp_path: Path) -> None:
    path = written(tmp_path, "sim.json", simulation_document(("fcfs", 1, 4.0), ("plas", 2, 2.0)))
    fcfs, plas = read_report([path]).runs
    assert [run.key for run in (fcfs, plas)] == [("fcfs", "1 programs/s", "seed 1"), ("plas", "1 programs/s", "seed 2")]
    assert fcfs.groups == {
        "all": {
            **{f"program_token_latency_s.{name}": pytest.approx(v) for name, v in (("mean", 0.4), ("p95", 0.8), ("p99", 1.2))},
            **{f"jct_s.{name}": v for name, v in (("mean", 4.0), ("p95", 8.0), ("p99", 12.0))},
            "makespan_s": 9.0,
        }
    }
    assert fcfs.quantiles["jct_s"] == [(0.5, 4.0), (0.95, 8.0), (0.99, 12.0), (1.0, 16.0)]
    assert fcfs.shares == {"waiting": 0.25, "swapping": 0.0, "execution": 0.75}
    assert [run.arm for run in read_report([f"new={path}"]).runs] == ["new fcfs", "new plas"]


def test_simulations_that_look_alike_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "sim.json", simulation_document(("fcfs", 1, 4.0)))
    other = written(tmp_path, "other.json", simulation_document(("fcfs", 1, 3.0)))
    with pytest.raises(ReportError, match=r"other\.json: there are two results of 'fcfs' at 1 programs/s, seed 1"):
        read_report([path, other])
    assert len(read_report([f"a={path}", f"b={other}"]).runs) == 2


def test_points_are_in_order_of_their_rates_and_those_without_come_last(tmp_path: Path) -> None:
    rates = (None, 10.0, 2.0)
    files = [written(tmp_path, f"{n}.json", bench_document(1.0, rate_per_s=rate)) for n, rate in enumerate(rates)]
    assert read_report([f"a={file}" for file in files]).points == ["2 programs/s", "10 programs/s", "all at once"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "a JSON object is expected"),
        ("{", "is not JSON"),
        ('{"schema": "other/1"}', "its schema is 'other/1'"),
        ('{"schema": "agentix-bench/1"}', "not a whole result of schema 'agentix-bench/1': 'rate_per_s' is missing"),
        ('{"schema": "agentix-simulate/1", "config": {}}', "not a whole result"),
        ('{"schema": "agentix-ab/1", "config": 1}', "not a whole result"),
    ],
)
def test_what_is_no_result_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ReportError, match=problem) as found:
        read_report([str(tmp_path / "bad.json")])
    assert "bad.json" in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"gone\.json cannot be read: No such file"):
        read_report([f"a={tmp_path / 'gone.json'}"])
    with pytest.raises(ReportError, match="a label must not be empty"):
        read_report(["=gone.json"])
    with pytest.raises(ReportError, match="at least one"):
        read_report([])


def test_real_results_are_read_with_the_numbers_that_they_tell() -> None:
    stock, plas = (json.loads((RESULTS / f"react-{name}.json").read_text()) for name in ("stock", "plas"))
    report = read_report([f"stock={RESULTS / 'react-stock.json'}", f"plas={RESULTS / 'react-plas.json'}"])
    for run, document in zip(report.runs, (stock, plas), strict=True):
        told = document["summary"]["distributions"]["jct_s"]
        assert [run.groups["all"][f"jct_s.{name}"] for name in ("mean", "p95", "p99")] == pytest.approx(
            [told["mean"], told["p95"], told["p99"]]
        )
        assert sum(run.shares.values()) == pytest.approx(1.0)
    comparison = read_report([str(RESULTS / "ab-tiny-random.json")])
    assert len(comparison.runs) == 12
    assert comparison.arms[0] == "stock-fcfs"


@pytest.mark.parametrize(
    "config",
    [
        SimulationConfig(scenario="figure2", rates_per_s=(), policies=("fcfs", "plas")),
        SimulationConfig(workload="chat", num_programs=3, rates_per_s=(1.0, float("inf")), seeds=(1, 2), policies=("fcfs",)),
    ],
)
def test_what_the_simulator_writes_is_read(config: SimulationConfig, tmp_path: Path) -> None:
    results = run_cases(config, num_processes=1, on_done=lambda: None)
    write_files(Files(numbers=tmp_path / "sim.json"), config, results)
    runs = read_report([str(tmp_path / "sim.json")]).runs
    assert len({run.key for run in runs}) == len(results)
    for run, result in zip(runs, results, strict=True):
        assert run.groups["all"]["jct_s.p99"] == result.summary.distributions["jct_s"].p99
        assert sum(run.shares.values()) == pytest.approx(1.0)
