"""A simulation of an engine that was measured: its card, its overhead per call, and how it shares prefixes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentix.cli import main
from agentix.core import SchedulerConfig
from agentix.core.balancers import make_balancer
from agentix.cost import CalibratedCard, EngineFacts, FittedCost, UnitCost, save_card
from agentix.metrics import ProgramRecord
from agentix.sim.config import EngineConfig, EngineCounts, engine_like
from agentix.sim.plan import SimulationConfig
from agentix.sim.run import run_case
from agentix.sim.simulation import Simulation
from agentix.workload import Call, Program
from agentix.workload.save import save_programs

CARD = CalibratedCard(
    model="a-model",
    measured_at="2026-11-30T09:00:00+00:00",
    agentix_version="0.1.0",
    engine=EngineFacts(
        device="a processor",
        vllm_version="0.32.0",
        dtype="float32",
        max_num_seqs=3,
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
    call_overhead_s=0.5,
)


def program(name: str, *outputs: int, **fields: Any) -> Program:
    """Calls one after the other, with prompts of one token unless `fields` say otherwise."""
    calls = [
        Call(
            call_id=f"{name}{i}",
            parents=(f"{name}{i - 1}",) if i else (),
            output_tokens=n,
            **{"prompt_tokens": 1, **fields},
        )
        for i, n in enumerate(outputs)
    ]
    return Program(program_id=name, workload="test", calls=tuple(calls))


def play(
    programs: Sequence[Program], *, call_overhead_s: float = 0.0, **options: Any
) -> tuple[list[ProgramRecord], EngineCounts]:
    """Steps of one second on one engine; every program arrives at 0."""
    config = EngineConfig(scheduler=SchedulerConfig(policy="fcfs"), **{"block_size": 4, "num_blocks": 100, **options})
    simulation = Simulation(
        programs,
        [0.0] * len(programs),
        engine=config,
        cost=UnitCost(),
        balancer=make_balancer("round_robin"),
        call_overhead_s=call_overhead_s,
    )
    return simulation.run(), simulation.engines["engine-0"].counts


def ends(programs: Sequence[Program], *, call_overhead_s: float = 0.0) -> list[float | None]:
    records, _ = play(programs, call_overhead_s=call_overhead_s)
    return [call.end_s for record in records for call in record.calls]


def test_every_call_comes_later_by_the_overhead() -> None:
    """Ready at 0, there at 0.25, two steps; ready at 2.25, there at 2.5, one step."""
    assert ends([program("a", 2, 1)], call_overhead_s=0.25) == [2.25, 3.5]
    assert ends([program("a", 2, 1)]) == [2.0, 3.0]


def test_on_a_busy_engine_the_overhead_costs_the_step_that_has_begun() -> None:
    """b keeps the engine busy; a's second call comes at 2.5, while the third step runs, and waits for the fourth."""
    assert ends([program("a", 2, 1), program("b", 9)], call_overhead_s=0.25) == [2.25, 4.25, 9.25]
    assert ends([program("a", 2, 1), program("b", 9)]) == [2.0, 3.0, 9.0]


def test_a_call_counts_on_what_another_computes_in_the_same_step() -> None:
    """Sixteen equal tokens: the second prompt finds three blocks of the first, all but the one with its last token."""
    equal = {"prompt_tokens": 16, "prompt_parts": (("same", 16),)}
    _, counts = play([program("a", 1, **equal), program("b", 1, **equal)])
    assert (counts.prompt_tokens, counts.cached_tokens, counts.computed_tokens) == (32, 12, 20)


def test_what_is_beyond_the_first_step_is_not_shared_yet() -> None:
    """Eight tokens fit a step: of the first prompt's 16, eight can be found when the second is admitted."""
    equal = {"prompt_tokens": 16, "prompt_parts": (("same", 16),)}
    _, counts = play([program("a", 1, **equal), program("b", 1, **equal)], max_batch_tokens=8)
    assert counts.cached_tokens == 8


def test_a_case_with_a_card_runs_on_its_engine(tmp_path: Path) -> None:
    """Overhead, 20 tokens of prefill that give the first token, one decode."""
    path = tmp_path / "trace.jsonl"
    save_programs(path, [program("a", 2, prompt_tokens=20)])
    config = SimulationConfig(
        workload=str(path), num_programs=1, policies=("fcfs",), card=CARD, engine=engine_like(CARD.engine)
    )
    result = run_case(config, config.cases()[0])
    assert result.summary.distributions["jct_s"].mean == 0.5 + (0.125 + 20 * 0.25) + (0.125 + 0.0625)
    settings = config.document()
    assert settings["card"] == json.loads(json.dumps(CARD.to_mapping()))
    assert settings["engine"]["num_blocks"] == 100
    assert {"device", "model"}.isdisjoint(settings)


class Simulate:
    """Runs `agentix simulate` in this process; gives exit status and both outputs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[Any, str, str]:
        self._monkeypatch.setattr("sys.argv", ["agentix", "simulate", "--jobs", "1", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = self._capsys.readouterr()
        return stop.value.code, captured.out, captured.err


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Simulate:
    return Simulate(monkeypatch, capsys)


def test_the_command_takes_slots_and_memory_from_the_card_unless_told_otherwise(tmp_path: Path, simulate: Simulate) -> None:
    save_card(CARD, tmp_path / "card.json")
    save_programs(tmp_path / "trace.jsonl", [program("a", 2)])
    command = ["--workload", str(tmp_path / "trace.jsonl"), "--programs", "1", "--cost", str(tmp_path / "card.json"), "--json"]
    _, out, _ = simulate(*command)
    engine = json.loads(out)["config"]["engine"]
    assert [engine[name] for name in ("max_num_seqs", "max_batch_tokens", "num_blocks", "block_size")] == [3, 64, 100, 16]
    assert str(tmp_path) not in out
    _, out, _ = simulate(*command, "--slots", "5", "--kv-tokens", "320")
    engine = json.loads(out)["config"]["engine"]
    assert [engine[name] for name in ("max_num_seqs", "num_blocks")] == [5, 20]


@pytest.mark.parametrize("option", ["--device", "--model"])
def test_what_a_card_says_cannot_be_said_twice(tmp_path: Path, simulate: Simulate, option: str) -> None:
    save_card(CARD, tmp_path / "card.json")
    status, out, err = simulate("--workload", "chat", "--cost", str(tmp_path / "card.json"), option, "x")
    assert (status, out) == (2, "")
    assert f"{option} does not go with --cost" in err


def test_swap_needs_the_figures_of_a_device(tmp_path: Path, simulate: Simulate) -> None:
    save_card(CARD, tmp_path / "card.json")
    status, _, err = simulate("--workload", "chat", "--cost", str(tmp_path / "card.json"), "--preemption", "swap")
    assert status == 2
    assert "swap" in err
