"""The studies of the default policy: hostile workloads, what is left out of the policy, and their pages."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from agentix.core.capacity import EngineCapacity
from agentix.core.config import SchedulerConfig
from agentix.core.history import ServiceHistory
from agentix.core.policies import make_policy
from agentix.core.program import CallRow, ProgramRow
from agentix.workload import Program
from benchmarks.policy.ablation import text as ablation_text
from benchmarks.policy.adversarial import text as adversarial_text
from benchmarks.policy.figure import make_chart
from benchmarks.policy.hostile import arrivals, make_programs, play
from benchmarks.policy.runs import add_options, open_document, play_missing
from benchmarks.policy.shapes import ABANDONED, SHAPES
from benchmarks.policy.variants import VARIANTS, HardSet, LearningOnly, NoAging, NoMargin, OneClass, ResidentsOnly


def kinds(programs: tuple[Program, ...]) -> dict[str, list[Program]]:
    found: dict[str, list[Program]] = {}
    for program in programs:
        found.setdefault(program.meta["kind"], []).append(program)
    return found


def answers(program: Program) -> int:
    return sum(call.output_tokens for call in program.calls)


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_are_the_same_for_a_seed_and_fit_the_engine(shape: str) -> None:
    programs = make_programs(shape, 0.1)
    make_programs.cache_clear()
    assert make_programs(shape, 0.1) == programs
    assert max(call.prompt_tokens + call.output_tokens for p in programs for call in p.calls) < 400_000
    assert len({p.program_id for p in programs}) == len(programs)


def test_of_two_modes_a_tenth_needs_fifty_times_as_much_and_the_class_does_not_tell() -> None:
    programs = make_programs("two_modes", 1.0)
    found = kinds(programs)
    assert {kind: len(alike) for kind, alike in found.items()} == {"short": 126, "long": 14}
    assert {kind: {answers(p) for p in alike} for kind, alike in found.items()} == {"short": {180}, "long": {9000}}
    assert {p.workload for p in programs} == {"agent"}


@pytest.mark.parametrize(("shape", "before", "after"), [("drift_up", 180, 3600), ("drift_down", 3600, 180)])
def test_totals_change_half_way(shape: str, before: int, after: int) -> None:
    programs = make_programs(shape, 1.0)
    half = len(programs) // 2
    assert [answers(p) for p in programs] == [before] * half + [after] * half


def test_huge_contexts_do_not_fit_in_pairs() -> None:
    found = kinds(make_programs("huge_contexts", 1.0))
    assert {call.prompt_tokens > 200_000 for p in found["huge"] for call in p.calls} == {True}
    assert max(call.prompt_tokens for p in found["small"] for call in p.calls) < 4000


def test_a_wide_program_has_a_hundred_threads_over_one_text() -> None:
    program = kinds(make_programs("wide", 0.1))["wide"][0]
    assert sum(call.parents == ("read",) for call in program.calls) == 100
    assert len(program.calls[-1].parents) == 100
    assert {call.prompt_parts[0][0] for call in program.calls[:-1] if call.prompt_parts} == {f"{program.program_id}/text"}


def test_abandoned_programs_stop_calling_and_are_forgotten_a_quarter_of_an_hour_later() -> None:
    program = kinds(make_programs("abandoned", 0.1))[ABANDONED][0]
    assert [call.tool_gap_s for call in program.calls][1:] == [900.0, None]
    assert (program.calls[-1].prompt_tokens, program.calls[-1].output_tokens) == (16, 1)


def test_classes_are_everybodys_own_or_nobodys() -> None:
    own, none = make_programs("unique_classes", 0.2), make_programs("one_class", 0.2)
    assert len({p.workload for p in own}) == len(own)
    assert {p.workload for p in none} == {""}
    assert [len(p.calls) for p in kinds(own)["big"]] == [len(p.calls) for p in kinds(none)["big"]]


def test_a_cold_start_comes_within_five_seconds() -> None:
    arrivals_s = arrivals("cold_start", 0.1, None)
    assert arrivals_s[0] == 0.0
    assert 4.0 < arrivals_s[-1] < 5.0


def test_a_run_counts_what_ends_and_a_lone_program_is_not_slowed_down() -> None:
    slow = play("abandoned", "default", 1e-5, 0.02)
    assert list(slow["jct_by_kind_s"]) == ["steady"]
    assert slow["jct_s"] == pytest.approx(slow["jct_by_kind_s"]["steady"])
    assert slow["worst_slowdown"] == pytest.approx(1.0)
    assert slow["makespan_s"] > 900.0  # they come a day apart
    assert play("identical", "fcfs", None, 0.1)["worst_slowdown"] > 1.05  # all at once


def row(**known: Any) -> ProgramRow:
    everything, alike = ServiceHistory(), ServiceHistory()
    alike.fallback = everything
    for history, total_s in ((everything, 20.0), (alike, 8.0)):
        for _ in range(8):
            history.add(total_s, 1000)
        history.learn(())
    found = ProgramRow(program_id="p", started_s=0.0, history=alike, **known)
    found.calls["c"] = CallRow(call_id="c", program_id="p", arrived_s=0.0)
    return found


def test_every_variant_leaves_out_what_it_says() -> None:
    config = SchedulerConfig(policy="default")
    assert ResidentsOnly(config).expected_s(row(service_s=3.0)) == 3.0
    assert OneClass(config).expected_s(row()) == 20.0
    assert NoAging(config).urgency_s(row(), now=1000.0) == pytest.approx(8.0, abs=1e-4)
    assert LearningOnly(config).expected_s(row()) == 8.0
    assert not LearningOnly(config).holds_programs
    for name, (policy, _) in VARIANTS.items():
        assert make_policy(SchedulerConfig(policy=policy)).holds_programs == (
            name not in ("fcfs", "plas", "plas with engine rules", "learning only")
        )


def test_without_a_margin_the_better_one_gets_in_and_in_a_hard_set_never() -> None:
    """A long resident whose context costs 100 s to compute again, and a newcomer that is better by less than that."""
    config = SchedulerConfig(policy="default", patience=1e6)
    inside = row(context_tokens=1000, num_finished=1)
    inside.program_id = "inside"
    outside = row(context_tokens=400)
    outside.history = ServiceHistory()
    capacity = EngineCapacity(kv_tokens=1400, num_slots=1, prefill_s_per_token=0.1)
    rows = [inside, outside]
    assert NoMargin(config).held_back(rows, frozenset(), capacity, 0.0) == {"inside"}
    assert HardSet(config).held_back(rows, frozenset(), capacity, 0.0) == {"p"}


def test_runs_that_are_there_are_not_played_again_unless_wanted(tmp_path: Path) -> None:
    parser, out = ArgumentParser(), tmp_path / "runs.json"
    add_options(parser, out=out)
    out.write_text(json.dumps({"scale": 1.0, "runs": {"a fcfs": 1, "a default": 2}}))
    document = open_document(parser, parser.parse_args(["--again", "default"]))
    saved: list[dict[str, int]] = []
    play_missing(
        lambda number: number + 10,
        {"a fcfs": (1,), "a default": (2,), "b default": (3,)},
        document["runs"],
        num_processes=1,
        on_done=lambda: saved.append(dict(document["runs"])),
    )
    assert saved == [{"a fcfs": 1, "a default": 12}, {"a fcfs": 1, "a default": 12, "b default": 13}]
    with pytest.raises(SystemExit):
        open_document(parser, parser.parse_args(["--scale", "0.5"]))


def run(mean: float, p99: float, **more: Any) -> dict[str, Any]:
    figures = {"token_latency_s": 0.1, "makespan_s": 50.0, "hit_rate": 0.5, "cpu_s": 60.0}
    return {"jct_s": mean, "jct_p99_s": p99, **figures, **more}


def test_the_pages_say_who_is_worse() -> None:
    kinds = {"worst_slowdown": 8.0, "jct_by_kind_s": {"long": 30.0, "short": 2.0}}
    runs = {"two_modes fcfs": run(10.0, 40.0, **kinds), "two_modes default": run(5.0, 60.0, **kinds)}
    runs["two_modes las"] = run(9.0, 30.0, **kinds)
    saturation = {"two_modes": {"rate_per_s": 2.0, "cpu_s": 120.0}}
    text = adversarial_text({"scale": 1.0, "runs": runs, "saturation": saturation})
    assert "in\n5 minutes of one core" in text
    assert "| `two_modes` | 0.50 | **1.50** | 1.00 | 1.00 | 1.00 | `las` 0.90 | `las` 0.75 |" in text
    assert "| `default` | 5.0 | 60 | 0.100 | 50 | 8.0 | 0.50 | 30.0 | 2.0 |" in text
    text = ablation_text({"scale": 0.5, "runs": {"mixed default": run(10.0, 40.0), "mixed no aging": run(8.0, 50.0)}})
    assert "| `no aging` | – | – | 0.80 | – | – |" in text
    assert "| `no aging` | – | – | 1.25 | – | – |" in text


def test_the_picture_shows_ratios_at_the_highest_load_alone() -> None:
    """A trace that was not played there has no group, a policy that was not has no bar."""

    def result(jct_s: float) -> dict[str, float]:
        return {"jct_s": jct_s, "token_latency_s": jct_s / 10}

    chart = make_chart(
        {
            ("mixed", "poisson", "0", 1.5): {"fcfs": result(8.0), "default": result(2.0)},
            ("mixed", "poisson", "0", 1.1): {"fcfs": result(8.0), "default": result(6.0)},
            ("tot_game24", "gamma", "0", 1.5): {"fcfs": result(8.0), "default": result(4.0)},
        },
        ("default", "plas"),
    )
    assert [(panel.groups, [bars.heights for bars in panel.bars]) for panel in chart.panels] == [
        (["Mixed"], [[0.25], [None]])
    ] * 2
