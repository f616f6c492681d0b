"""The comparison of simulator and engine: a run that the simulator itself made is predicted exactly, a slower one is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentix.cost import CalibratedCard, EngineFacts, FittedCost, Step
from agentix.metrics.definitions import jct_s, program_token_latency_s
from agentix.workload import Call, Program
from agentix.workload.save import save_programs
from benchmarks.fidelity.cases import Case, Measured, cases_of
from benchmarks.fidelity.predict import Paced, predict, simulate
from benchmarks.fidelity.report import count_within, prediction_table, repeat_table

CARD = CalibratedCard(
    model="a-model",
    measured_at="2026-11-30T09:00:00+00:00",
    agentix_version="0.1.0",
    engine=EngineFacts(
        device="a processor",
        vllm_version="0.32.0",
        dtype="float32",
        max_num_seqs=2,
        max_batch_tokens=64,
        block_size=16,
        num_blocks=100,
        max_model_len=512,
        prefix_cache=True,
        async_scheduling=False,
    ),
    cost=FittedCost(
        per_step_s=0.125,
        per_prefill_token_s=0.25,
        per_prefill_pair_s=0.0,
        per_decode_s=0.0625,
        per_decode_context_token_s=0.0,
    ),
    call_overhead_s=0.03125,
)
CASE = Case(workload="react_x", policy="plas", load=0.7, num_programs=6, seed=1)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Two calls each; the second repeats the first's block of 16 tokens."""
    path = tmp_path / "programs.jsonl.gz"
    save_programs(path, [_program(index) for index in range(CASE.num_programs)])
    return path


def _program(index: int) -> Program:
    first = Call(call_id="a", parents=(), prompt_tokens=20, output_tokens=index + 1, prefix_hash_ids=(index, 100 + index))
    second = Call(call_id="b", parents=("a",), prompt_tokens=24, output_tokens=2, prefix_hash_ids=(index, 200 + index))
    return Program(program_id=f"p{index}", workload="x", calls=(first, second), arrival_s=2.0 * index, block_size=16)


def run_at(slowness: float, programs: Path) -> Measured:
    """What a real engine would have given on a machine so slow, were it the modelled one."""
    records, cached_tokens = simulate(CASE.policy, programs, CARD, Paced(CARD.cost, [slowness]))
    step = Step(prefill_tokens=4)
    return Measured(
        case=CASE,
        started_at="2026-11-30T09:00:00+00:00",
        engine=CARD.engine,
        jct_s=[jct_s(record) or 0.0 for record in records],
        token_latency_s=[program_token_latency_s(record) or 0.0 for record in records],
        prompt_tokens=44 * len(records),
        cached_tokens=cached_tokens,
        steps=[(step, 0.0, slowness * CARD.cost.step_s(step))],
    )


def test_one_program_by_hand(tmp_path: Path) -> None:
    """Overhead, 20 tokens of prefill that give the first token; overhead, 8 of 24 tokens that are not cached, a decode."""
    path = tmp_path / "programs.jsonl"
    save_programs(path, [_program(0)])
    [record], cached_tokens = simulate("fcfs", path, CARD)
    assert jct_s(record) == 0.03125 + (0.125 + 20 * 0.25) + 0.03125 + (0.125 + 8 * 0.25) + (0.125 + 0.0625)
    assert cached_tokens == 16


def test_a_run_of_the_modelled_engine_is_predicted_exactly(programs: Path) -> None:
    predicted = predict(run_at(1.0, programs), programs, CARD)
    assert predicted.slowness == 1.0
    assert predicted.cached_tokens == 16 * CASE.num_programs
    assert [one.error for one in predicted.compared] == [0.0] * 4
    assert [(one.metric, one.of) for one in predicted.compared] == [
        (metric, of) for metric in ("jct_s", "program_token_latency_s") for of in ("mean", "p95")
    ]
    assert count_within([predicted], paced=False) == (4, 4)


def test_a_machine_twice_as_slow_is_missed_by_the_card_and_met_when_its_pace_is_known(programs: Path) -> None:
    predicted = predict(run_at(2.0, programs), programs, CARD)
    assert predicted.slowness == 2.0
    assert all(one.error < -0.5 for one in predicted.compared)
    assert [one.paced_error for one in predicted.compared] == [0.0] * 4
    assert count_within([predicted], paced=False) == (0, 4)
    alone, paced = (prediction_table([predicted], paced=flag).splitlines()[-1] for flag in (False, True))
    assert (alone.count("**"), paced.count("**")) == (8, 0)
    assert "(+0 %)" in paced


def test_a_measured_run_reads_back(tmp_path: Path, programs: Path) -> None:
    run = run_at(1.0, programs)
    run.save(tmp_path / "run.json.gz")
    assert Measured.load(tmp_path / "run.json.gz") == run


def test_runs_of_one_case_stand_side_by_side_with_their_spread(programs: Path) -> None:
    first = replace(run_at(1.0, programs), jct_s=[10.0] * 4, token_latency_s=[1.0] * 4)
    second = replace(first, case=replace(CASE, repeat=2), jct_s=[30.0] * 4)
    other = replace(first, case=replace(CASE, load=1.3))
    cells = ["react-plas-0.7", "10.0 / 30.0 (100 %)", "10.0 / 30.0 (100 %)", "1000 / 1000 (0 %)", "1000 / 1000 (0 %)"]
    assert repeat_table([first, other, second]).splitlines()[2:] == [f"| {' | '.join(cells)} |"]


def test_every_case_has_a_name_of_its_own_and_repeats_share_programs_and_arrivals() -> None:
    cases = cases_of("loaded-machine")
    assert len({case.name for case in cases}) == len(cases) == 12
    repeats = [case for case in cases if case.name.startswith("react-fcfs-1.3")]
    assert [case.name for case in repeats] == ["react-fcfs-1.3", "react-fcfs-1.3-r2"]
    assert len({(case.seed, case.rate_per_s, case.num_programs) for case in repeats}) == 1
