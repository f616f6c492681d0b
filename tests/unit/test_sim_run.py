"""`agentix simulate`: configuration, cases, table, result file."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentix import __version__
from agentix.cli import main
from agentix.core import ConfigError
from agentix.metrics import Status
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import run_case
from agentix.workload import gamma_arrivals

TRACE = {
    "program_id": "p",
    "workload": "test",
    "calls": [
        {"call_id": "a", "parents": [], "prompt_tokens": 100, "output_tokens": 20, "new_tokens": 100, "reused_tokens": 0},
        {"call_id": "b", "parents": ["a"], "prompt_tokens": 200, "output_tokens": 5, "new_tokens": 80, "reused_tokens": 120},
    ],
}


def write(path: Path, *programs: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(program) + "\n" for program in programs))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.jsonl", *(TRACE | {"program_id": f"p{n}"} for n in range(8)))


class Simulate:
    """Runs `agentix simulate` in this process; gives exit status, standard output and standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, arguments: str) -> tuple[Any, str, str]:
        self._monkeypatch.setattr("sys.argv", ["agentix", "simulate", "--jobs", "1", *arguments.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = self._capsys.readouterr()
        return stop.value.code, captured.out, captured.err


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Simulate:
    return Simulate(monkeypatch, capsys)


def test_policies_see_the_same_programs_and_the_file_says_what_was_done(
    trace: Path, tmp_path: Path, simulate: Simulate
) -> None:
    out = tmp_path / "result.json"
    status, printed, _ = simulate(
        f"--workload {trace} --programs 8 --rate inf --slots 2 --policy fcfs,srpt --seed 3 --quanta 2,3 --json --out {out}"
    )
    assert status == 0
    document = json.loads(printed)
    assert document == json.loads(out.read_text())
    assert (document["schema"], document["agentix_version"]) == ("agentix-simulate/1", __version__)
    config = document["config"]
    assert (config["workload"], config["num_programs"], config["rates_per_s"], config["seeds"]) == (
        "trace.jsonl",
        8,
        [None],
        [3],
    )
    assert (config["engine"]["max_num_seqs"], config["engine"]["scheduler"]["quanta_s"]) == (2, [2.0, 3.0])
    assert config["engine"]["num_blocks"] == 28069  # what is left of the device beside the model
    assert str(tmp_path) not in printed
    fcfs, srpt = document["runs"]
    assert (fcfs["policy"], srpt["policy"]) == ("fcfs", "srpt")
    for run in (fcfs, srpt):
        assert (run["balancer"], run["rate"], run["seed"]) == ("program_affinity", None, 3)
        assert (run["num_completed"], run["num_failed"], run["num_repeated"]) == (8, 0, 0)
        assert run["engines"]["prompt_tokens"] == 8 * 300
        assert run["num_preemptions"] == run["engines"]["num_preemptions"]
        assert set(run["jct_s"]) >= {"mean", "p50", "p95", "p99"}
        assert run["wait_share"]["mean"] + run["execute_share"]["mean"] == pytest.approx(1.0)
    assert srpt["jct_s"]["mean"] < fcfs["jct_s"]["mean"]
    assert srpt["total_wait_s"] < fcfs["total_wait_s"]


def test_every_combination_is_run_in_a_stable_order(trace: Path) -> None:
    config = SimulationConfig(
        workload=str(trace), policies=("plas", "fcfs"), balancers=("least_used",), rates_per_s=(2.0, math.inf), seeds=(5, 1)
    )
    cases = [(case.policy, case.balancer, case.rate_per_s, case.seed) for case in config.cases()]
    assert cases == [
        (policy, "least_used", rate_per_s, seed)
        for policy in ("plas", "fcfs")
        for rate_per_s in (2.0, math.inf)
        for seed in (5, 1)
    ]


def test_a_case_is_a_function_of_its_arguments(trace: Path) -> None:
    config = SimulationConfig(workload=str(trace), num_programs=8, rates_per_s=(5.0,), seeds=(0, 1), policies=("plas",))
    first, again, other = (run_case(config, case).document() for case in (*config.cases()[:1], *config.cases()))
    assert first == again
    assert other["jct_s"] != first["jct_s"]


def test_a_table_has_a_row_per_policy(trace: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, printed, _ = simulate(f"--workload {trace} --programs 2 --policy plas,atlas")
    assert status == 0
    rows = [line.split() for line in printed.splitlines()]
    assert [row[0] for row in rows if len(row) == 10] == ["policy", "plas", "atlas"]


def test_a_table_averages_over_seeds_and_fits_100_columns(trace: Path, tmp_path: Path, simulate: Simulate) -> None:
    out = tmp_path / "result.json"
    status, printed, _ = simulate(
        f"--workload {trace} --programs 8 --rate 1,40 --seed 1,2,3 --policy fcfs,atlas_exact --balancer "
        f"program_affinity,least_used --out {out}"
    )
    assert status == 0
    assert max(map(len, printed.splitlines()[:9])) <= 100
    rows = [line.split() for line in printed.splitlines()[1:9]]
    assert [row[:3] for row in rows] == [
        [policy, balancer, rate]
        for policy in ("fcfs", "atlas_exact")
        for balancer in ("program_affinity", "least_used")
        for rate in ("1", "40")
    ]
    means = [run["jct_s"]["mean"] for run in json.loads(out.read_text())["runs"][:3]]
    assert rows[0][3] == f"{sum(means) / 3:.3g}±{(max(means) - min(means)) / 2 / (sum(means) / 3):.0%}"


def test_repeats_are_told(trace: Path, simulate: Simulate) -> None:
    _, printed, error = simulate(f"--workload {trace} --programs 10 --policy fcfs --json")
    assert json.loads(printed)["runs"][0]["num_repeated"] == 2
    assert "2 of the programs are repeats" in error


def test_programs_that_did_not_end_are_told_and_the_exit_status_is_1(
    trace: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimulationConfig(workload=str(trace), num_programs=8, policies=("fcfs",))
    result = run_case(config, config.cases()[0])
    statuses = {**result.summary.num_programs, Status.OK: 5, Status.NOT_RUN: 3}
    broken = replace(result, summary=replace(result.summary, num_programs=statuses))
    monkeypatch.setattr(sys.modules["agentix.cli.simulate"], "run_cases", lambda *_, **__: [broken])
    status, printed, error = simulate(f"--workload {trace} --programs 8 --policy fcfs --json")
    assert status == 1
    assert "3 programs of a run did not end well" in error
    run = json.loads(printed)["runs"][0]
    assert (run["num_completed"], run["num_failed"]) == (5, 3)


def arrivals_s(config: SimulationConfig) -> dict[str, float]:
    """When each program's first call came, by program."""
    timeline = run_case(config, config.cases()[0], with_timeline=True).timeline
    assert timeline is not None
    first: dict[str, float] = {}
    for call in timeline.calls.values():
        first.setdefault(call.program_id.partition(":")[2], call.arrived_s)
    return first


def test_recorded_arrivals_are_kept_and_the_first_to_arrive_are_taken(tmp_path: Path) -> None:
    recorded_s = {"x": 7.0, "y": 5.0, "z": 9.5}
    path = write(tmp_path / "t.jsonl", *(TRACE | {"program_id": p, "arrival_s": at_s} for p, at_s in recorded_s.items()))
    config = SimulationConfig(workload=str(path), num_programs=2, arrivals="trace", rates_per_s=(), policies=("fcfs",))
    assert arrivals_s(config) == {"y": 0.0, "x": 2.0}


def test_bursts(trace: Path) -> None:
    config = SimulationConfig(workload=str(trace), num_programs=8, arrivals="gamma", rates_per_s=(2.0,), seeds=(4,))
    expected = gamma_arrivals(random.Random("4/arrivals"), num_programs=8, rate_per_s=2.0, cv=3.0)
    assert list(arrivals_s(config).values()) == pytest.approx(expected)


def test_a_generator_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_programs.py").write_text(
        "from agentix.workload import Call, Program\n"
        "class Mine:\n"
        "    def generate(self, rng, *, index):\n"
        "        call = Call(call_id='c', parents=(), prompt_tokens=5, output_tokens=index + 1)\n"
        "        return Program(program_id=f'mine-{index}', workload='mine', calls=(call,))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = SimulationConfig(workload="my_programs:Mine", num_programs=3, policies=("fcfs",))
    result = run_case(config, config.cases()[0])
    assert result.counts.prompt_tokens == 3 * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give either a workload or a scenario"),
        (
            "--workload poetry",
            "unknown workload 'poetry': no such file, and not a kind of programs; known: chat, map_reduce, mixed,",
        ),
        ("--workload /nowhere.jsonl", "unknown workload '/nowhere.jsonl': no such file"),
        ("--workload no_such_module:Mine", "cannot load workload generator 'no_such_module:Mine'"),
        ("--workload chat --policy lottery", "unknown policy 'lottery'; known: atlas, atlas_exact, default, fcfs,"),
        ("--workload chat --policy fcfs,fcfs", "policies holds 'fcfs' twice"),
        ("--workload chat --policy fcfs,", "--policy must be names separated by commas, not 'fcfs,'"),
        ("--workload chat --balancer lottery", "unknown balancer 'lottery'; known: least_used,"),
        ("--workload chat --device abacus", "unknown device 'abacus'; known: a100-80gb,"),
        ("--workload chat --model eliza", "unknown model 'eliza'; known: falcon-180b,"),
        ("--workload chat --model llama-3.1-70b --device l4", "llama-3.1-70b does not fit on 4 × l4"),
        ("--workload chat --preemption forget", "unknown preemption 'forget'; known: none, recompute, swap, park"),
        ("--workload chat --rate 0", "rate must be above 0 programs per second (inf: all at once), not 0.0"),
        ("--workload chat --rate=-2", "rate must be above 0 programs per second (inf: all at once), not -2.0"),
        ("--workload chat --rate 1,nan", "rate must be above 0 programs per second (inf: all at once), not nan"),
        ("--workload chat --rate fast", "--rate must be numbers separated by commas, not 'fast'"),
        ("--workload chat --seed 1.5", "--seed must be numbers separated by commas, not '1.5'"),
        ("--workload chat --arrivals daily", "unknown arrivals 'daily'; known: gamma, poisson, trace"),
        ("--workload chat --arrivals trace --rate 1", "a rate is for arrivals that are drawn"),
        ("--workload chat --arrivals trace", "workload chat: program 'chat-0': arrival_s is missing"),
        ("--workload chat --kv-tokens 3", "kv_tokens must be at least one block of 16, not 3"),
        ("--workload chat --out /nowhere/x.json", "cannot write to /nowhere/x.json"),
        ("--workload chat --gantt /", "cannot write to /"),
        ("--scenario figure3", "unknown scenario 'figure3'; known: figure2, figure9"),
        ("--scenario figure2 --rate 2", "--rate does not go with --scenario"),
        ("--scenario figure2 --workload chat", "--workload does not go with --scenario"),
    ],
)
def test_bad_settings_are_one_line(arguments: str, message: str, simulate: Simulate) -> None:
    status, _, error = simulate(arguments)
    assert status == 2
    assert message in error
    assert error.count("\n") == 1


def call(**fields: Any) -> dict[str, Any]:
    """A trace's call; None leaves a field out."""
    values = {"call_id": "c", "parents": [], "prompt_tokens": 10, "output_tokens": 2} | fields
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([call(prompt_tokens=-1)], "{path}, line 2, program 'bad', call 'c': prompt_tokens is negative: -1"),
        ([call(output_tokens=-3)], "{path}, line 2, program 'bad', call 'c': output_tokens is negative: -3"),
        ([call(tool_gap_s=-0.5)], "{path}, line 2, program 'bad', call 'c': tool_gap_s is negative: -0.5"),
        ([call(prompt_tokens=None)], "{path}, line 2, program 'bad', call 'c': prompt_tokens is missing"),
        ([call(output_tokens=None)], "{path}, line 2, program 'bad', call 'c': output_tokens is missing"),
        (
            [call(prompt_tokens="ten")],
            "{path}, line 2, program 'bad', call 'c': prompt_tokens must be a whole number, not a string",
        ),
        ([call(prompt_tokens=0)], "{path}, line 2, program 'bad', call 'c': prompt_tokens is 0"),
        ([call(parents=["gone"])], "{path}, line 2, program 'bad', call 'c': parent 'gone' does not exist"),
        ([call(), call()], "{path}, line 2, program 'bad', call 'c': call id is used twice"),
        (
            [call(parents=["d"]), call(call_id="d", parents=["c"])],
            "{path}, line 2, program 'bad': calls form a cycle: c → d → c",
        ),
        ([], "{path}, line 2, program 'bad': calls is empty"),
        (
            [call(prompt_tokens=500_000)],
            "{path}, line 2, program 'bad', call 'c': "
            "prompt_tokens and output_tokens, 500002, do not fit the KV cache of 449104",
        ),
    ],
)
def test_bad_programs_are_one_line_that_names_them(
    calls: list[dict[str, Any]], message: str, tmp_path: Path, simulate: Simulate
) -> None:
    path = write(tmp_path / "t.jsonl", TRACE, {"program_id": "bad", "workload": "test", "calls": calls})
    for seed in range(4):  # with one of these the bad program is drawn first
        status, _, error = simulate(f"--workload {path} --programs 1 --policy fcfs --seed {seed}")
        if status:
            break
    assert status == 2
    assert error == f"agentix: {message.format(path=path)}\n"


def test_a_workload_without_programs(tmp_path: Path, simulate: Simulate) -> None:
    path = write(tmp_path / "t.jsonl")
    assert simulate(f"--workload {path}") == (2, "", f"agentix: {path}: the workload holds no programs\n")


def test_a_folder_is_no_workload(tmp_path: Path, simulate: Simulate) -> None:
    assert simulate(f"--workload {tmp_path}") == (2, "", f"agentix: {tmp_path}: cannot be read: Is a directory\n")


@pytest.mark.parametrize(
    "settings", [{"num_programs": 0}, {"num_engines": 0}, {"policies": ()}, {"rates_per_s": ()}, {"seeds": (1, 1)}]
)
def test_a_configuration_is_checked_when_it_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=re.compile("at least|rate|twice")):
        SimulationConfig(workload="chat", **settings)
