"""The paper's worked examples as scenarios: the same programs as the golden tests', served at the same times."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from agentix.cli import app
from agentix.core import CallRow, ProgramRow, SchedulerConfig, SchedulingPolicy
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import run_case
from agentix.sim.scenarios import SCENARIOS, find_scenario
from step_engine import Work, run

POLICIES = ["fcfs", "round_robin", "mlfq", "plas", "atlas", "atlas_exact", "srpt"]
SUCCESSORS_S = {
    "r": 11,
    "a": 9,
    "b": 5,
    "c": 6,
    "d": 3,
    "e": 2,
    "z": 1,
}  # figure 9: steps of the longest path that begins there


class LongestPathFirst(SchedulingPolicy):
    """Clairvoyant: the call whose longest path to the end of the program is longest."""

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return -SUCCESSORS_S[call.call_id.partition("/")[2]]


class CriticalCallLast(SchedulingPolicy):
    """Adversarial: the call on the critical path after all its siblings."""

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return "rcdeabz".index(call.call_id.partition("/")[2])


def play(name: str, *policies: str) -> list[dict[str, float]]:
    config = SimulationConfig(scenario=name, rates_per_s=(), policies=policies, engine=find_scenario(name).engine)
    return [run_case(config, case).document() for case in config.cases()]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_call_ends_when_a_model_made_by_hand_says(name: str, policy: str) -> None:
    example = find_scenario(name)
    config = SimulationConfig(scenario=name, rates_per_s=(), policies=(policy,), engine=example.engine)
    timeline = run_case(config, config.cases()[0], with_timeline=True).timeline
    assert timeline is not None
    plan = {p.program_id: {c.call_id: Work(c.output_tokens, c.parents) for c in p.calls} for p in example.programs}
    scheduler = SchedulerConfig(policy=policy, quanta_s=(1.0, 2.0, 4.0, 8.0), starvation_ratio=None)
    expected = run(scheduler, plan, num_slots=2).finished_s
    assert {call_id.partition("/")[2]: call.ended_s for call_id, call in timeline.calls.items()} == expected


def test_figure_2() -> None:
    fcfs, mlfq, plas = play("figure2", "fcfs", "mlfq", "plas")
    assert [run["total_wait_s"] for run in (fcfs, mlfq, plas)] == [18, 19, 14]
    assert [run["makespan_s"] for run in (fcfs, mlfq, plas)] == [14, 13, 13]
    assert fcfs["num_preemptions"] == 0


def test_figure_9() -> None:
    best, worst, atlas = play("figure9", f"{__name__}:LongestPathFirst", f"{__name__}:CriticalCallLast", "atlas")
    assert [run["makespan_s"] for run in (best, worst, atlas)] == [11, 14, 12]


def test_on_the_command_line(tmp_path: Path) -> None:
    gantt, trace, out = (tmp_path / name for name in ("g.svg", "t.json", "o.json"))
    arguments = f"simulate --scenario figure2 --policy fcfs,plas --jobs 1 --json --gantt {gantt} --trace {trace} --out {out}"
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 0
    document = json.loads(out.read_text())
    assert document["config"]["scenario"] == "figure2"
    assert "device" not in document["config"]
    assert document["config"]["engine"]["scheduler"] == {
        "quanta_s": [1.0, 2.0, 4.0, 8.0],
        "starvation_ratio": None,
        "patience": 0.25,
        "running_first": False,
        "weigh_evictions": False,
        "class_weights": [],
    }
    assert [(run["policy"], run["total_wait_s"], run["rate"]) for run in document["runs"]] == [
        ("fcfs", 18, None),
        ("plas", 14, None),
    ]
    texts = [e.text for e in ElementTree.parse(gantt).iter("{http://www.w3.org/2000/svg}text")]
    assert {"fcfs", "plas", "0:A", "B3"} <= set(texts)
    processes = [e["args"]["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "process_name"]
    assert processes == ["fcfs engine-0", "plas engine-0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.svg", "o.json", "t.json"]


def test_its_quanta_may_be_changed() -> None:
    arguments = "simulate --scenario figure2 --policy mlfq --quanta 100 --jobs 1 --json"
    result = CliRunner().invoke(app, arguments.split())
    assert json.loads(result.stdout)["runs"][0]["total_wait_s"] == 18  # no quantum is ever used up: first come, first served
