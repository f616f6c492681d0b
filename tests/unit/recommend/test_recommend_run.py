"""Recommendations from small simulations: what is tried, what is compared, and what the answer says."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentix.cli import main
from agentix.core import POLICIES
from agentix.core.balancers import BALANCERS
from agentix.core.errors import ConfigError
from agentix.cost import load_card
from agentix.recommend.choose import Verdict
from agentix.recommend.config import Arm, RecommendConfig, real_policies
from agentix.recommend.display import verdict_lines
from agentix.recommend.run import num_cases, recommend
from agentix.recommend.variants import Variants, rearranged
from agentix.workload import Program, generate_programs, save_programs

CARD = load_card(Path(__file__).parents[3] / "docs" / "results" / "fidelity" / "quiet-machine" / "card.json")
FCFS = Arm(policy="fcfs", balancer="program_affinity", num_engines=1)


def programs(num_programs: int = 12, gap_s: float = 1.0, kind: str = "chat") -> list[Program]:
    drawn = generate_programs(kind, random.Random(7), num_programs=num_programs)
    return [replace(program, arrival_s=gap_s * n) for n, program in enumerate(drawn)]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    save_programs(path, programs())
    return path


def config(trace: Path, now: Arm = FCFS, **fields: object) -> RecommendConfig:
    return RecommendConfig(trace=trace, now=now, num_repeats=2, **fields)  # type: ignore[arg-type]


def test_variants_exchange_programs_among_the_recorded_moments(trace: Path, tmp_path: Path) -> None:
    known = programs()
    changed = rearranged(known, 3)
    assert [p.program_id for p in changed] == [p.program_id for p in known]
    assert sorted(p.arrival_s or 0.0 for p in changed) == [p.arrival_s for p in known]
    assert changed != known
    assert changed == rearranged(known, 3)
    assert changed != rearranged(known, 4)
    variants = Variants(config(trace), tmp_path)
    assert variants.simulation(0).workload == str(trace)
    assert variants.simulation(3).workload == variants.simulation(3).workload != variants.simulation(4).workload
    assert variants.simulation(0).num_programs == 12


def test_with_a_rate_variants_are_other_draws(trace: Path, tmp_path: Path) -> None:
    variants = Variants(config(trace, rate_per_s=2.0), tmp_path)
    assert [variants.simulation(n).seeds for n in (0, 5)] == [(0,), (5,)]
    assert variants.simulation(5).workload == str(trace)
    assert variants.simulation(5).rates_per_s == (2.0,)


def test_candidates_are_what_engines_can_do_and_what_is_in_use(trace: Path) -> None:
    assert "srpt" in set(POLICIES.names) - set(real_policies())  # which knows the future
    policies, balancers = config(trace).candidates()
    assert (policies[0], set(policies)) == ("fcfs", set(real_policies()))
    assert balancers == ("program_affinity",)  # one engine needs none
    two = config(trace, replace(FCFS, num_engines=2), policies=("plas",))
    assert two.candidates() == (
        ("fcfs", "plas"),
        ("program_affinity", *(n for n in BALANCERS.names if n != "program_affinity")),
    )
    assert num_cases(two) == 2 * (2 + len(BALANCERS.names)) + 2 * 3


def test_the_same_question_has_the_same_answer_whatever_the_number_of_processes(trace: Path) -> None:
    question = config(trace, card=CARD, policies=("plas",))
    assert recommend(question, num_processes=1) == recommend(question, num_processes=2)


def test_what_is_in_use_against_itself_is_kept(trace: Path) -> None:
    answer = recommend(config(trace, card=CARD, policies=("fcfs",)), num_processes=1)
    assert (answer.verdict, answer.proposal, answer.fewer) == (Verdict.KEEP, None, None)
    assert {name: ratio.centre for name, ratio in answer.comparison.ratios.items()} == dict.fromkeys(
        answer.comparison.ratios, 1.0
    )
    lines = list(verdict_lines(answer))
    assert lines[0] == f"12 programs, {answer.num_calls} calls; in use: fcfs on 1 engine."
    assert lines[1] == "Change nothing: of what was tried, nothing is faster than what is in use."


def test_with_several_engines_balancers_are_tried_and_one_engine_fewer(trace: Path) -> None:
    save_programs(trace, programs(16, gap_s=0.1, kind="react"))  # more at once than the eight slots of an engine
    now = replace(FCFS, num_engines=2)
    done: list[None] = []
    question = config(trace, now, card=CARD, policies=("fcfs",), balancers=("round_robin",))
    answer = recommend(question, num_processes=1, on_done=lambda: done.append(None))
    assert set(answer.trials) == {now, replace(now, balancer="round_robin")}
    assert len(done) <= num_cases(question)
    assert answer.fewer is not None
    assert answer.fewer.arm.num_engines == 1
    assert answer.fewer.ratios["jct_s.mean"].centre > 1
    assert not answer.one_engine_fewer_would_do


def test_the_command_says_it_in_words_and_as_json(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = Path(__file__).parents[3] / "docs" / "results" / "fidelity" / "quiet-machine" / "card.json"
    arguments = ["agentix", "recommend", str(trace), "--policy", "fcfs", "--try-policy", "plas", "--repeat", "2", "--jobs", "1"]
    documents = []
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", [*arguments, "--cost", str(card), *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        documents.append(capsys.readouterr().out)
    words, told = documents[0], json.loads(documents[1])
    assert (told["schema"], told["trace"], told["num_programs"]) == ("agentix-recommend/1", "trace.jsonl", 12)
    assert told["now"] == {"policy": "fcfs", "balancer": "program_affinity", "num_engines": 1}
    assert {(trial["policy"], trial["balancer"]) for trial in told["trials"]} == {
        (p, "program_affinity") for p in ("fcfs", "plas")
    }
    assert (told["proposal"] is None) == (told["verdict"] != "change")
    assert words.startswith("12 programs, ")
    assert str(trace.parent) not in documents[1]


def test_what_cannot_be_asked_is_refused(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such trace file"):
        config(tmp_path / "gone.jsonl")
    with pytest.raises(ConfigError, match="unknown policy 'best'"):
        config(trace, replace(FCFS, policy="best"))
    with pytest.raises(ConfigError, match="unknown policy 'best'"):
        config(trace, policies=("plas", "best"))
    with pytest.raises(ConfigError, match="unknown balancer 'nearest'"):
        config(trace, replace(FCFS, num_engines=2), balancers=("nearest",))
    with pytest.raises(
        ConfigError, match="policy SRPT needs knowledge of the future"
    ):  # no engine could follow what is proposed
        config(trace, policies=("srpt",))
    with pytest.raises(ConfigError, match=r"balancers to try \(round_robin\) need 2 engines or more"):
        config(trace, balancers=("round_robin",))
    with pytest.raises(ConfigError, match="at least 2 repeats, not 1"):
        RecommendConfig(trace=trace, now=FCFS, num_repeats=1)
    save_programs(tmp_path / "timeless.jsonl", [replace(program, arrival_s=None) for program in programs(2)])
    with pytest.raises(ConfigError, match=r"nobody knows when program .* arrived: give a rate"):
        recommend(config(tmp_path / "timeless.jsonl"), num_processes=1)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ConfigError, match="holds no programs"):
        recommend(config(tmp_path / "empty.jsonl"), num_processes=1)
