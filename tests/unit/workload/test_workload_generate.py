"""Synthetic programs: they are what they claim to be, in structure and in statistics."""

from __future__ import annotations

import itertools
import random
import statistics
from pathlib import Path

import pytest

from agentix.core.errors import ConfigError
from agentix.workload import GENERATORS, Call, Program, generate_programs, load_programs, program_parts, save_programs
from prefix_reuse import PrefixTree, prefix_reuse, reused_and_all_tokens

KINDS = ["chat", "map_reduce", "mixed", "react", "tree"]


def make(kind: str, num_programs: int = 2000, seed: int = 1, **options: object) -> tuple[Program, ...]:
    return generate_programs(kind, random.Random(seed), num_programs=num_programs, **options)


def calls_of(programs: tuple[Program, ...]) -> list[Call]:
    return [call for program in programs for call in program.calls]


def mean_calls(programs: tuple[Program, ...]) -> float:
    return statistics.fmean(len(program.calls) for program in programs)


def test_every_kind_is_registered() -> None:
    assert GENERATORS.names == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_programs(kind: str) -> None:
    first = make(kind, 30)
    assert all(make(kind, 30) == first for _ in range(10))
    assert make(kind, 10) == first[:10]
    assert make(kind, 30, seed=2) != first


@pytest.mark.parametrize("kind", KINDS)
def test_generated_programs_pass_the_loader_unchanged(kind: str, tmp_path: Path) -> None:
    programs = make(kind, 40)
    save_programs(tmp_path / "t.jsonl.gz", programs)
    assert load_programs(tmp_path / "t.jsonl.gz") == programs


@pytest.mark.parametrize("kind", KINDS)
def test_every_prompt_is_given_in_parts_and_every_answer_in_a_prompt_is_a_parents(kind: str) -> None:
    for program in make(kind, 40):
        answers = {parts.answer for parts in program_parts(program).values()}
        for call in program.calls:
            assert call.prompt_parts
            assert call.output_tokens > 0
            assert all(tokens > 0 for _, tokens in call.prompt_parts)
            assert {part for part in call.prompt_parts if part[0].endswith(":answer")} <= answers


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown workload generator 'chess'; known: chat, map_reduce"):
        make("chess")
    with pytest.raises(ConfigError, match=r"options of workload generator 'chat'.*'humans'"):
        make("chat", humans=3)


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("chat", "human_gap_scale", -1),
        ("react", "num_tool_sets", 0),
        ("react", "tool_gap_mean_s", float("inf")),
        ("tree", "few_shot_tokens", 0),
        ("tree", "tool_gap_mean_s", float("nan")),
        ("map_reduce", "min_maps", 0),
        ("map_reduce", "max_maps", 3),
    ],
)
def test_options_out_of_range_are_refused(kind: str, option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{option} must be at least .* not {value}"):
        make(kind, 1, 1, **{option: value})


def test_tools_can_take_time() -> None:
    for kind, slow in (("react", "tool"), ("tree", "value")):
        calls = calls_of(make(kind, 100, tool_gap_mean_s=2.4))
        gaps = [call.tool_gap_s for call in calls if call.kind == slow and call.tool_gap_s is not None]
        assert statistics.fmean(gaps) == pytest.approx(2.4, rel=0.1)


def test_chat_has_the_statistics_of_sharegpt() -> None:
    programs = make("chat")
    calls = calls_of(programs)
    assert mean_calls(programs) == pytest.approx(6.3, rel=0.1)
    assert max(len(program.calls) for program in programs) == 80
    assert statistics.median(call.output_tokens for call in calls) == pytest.approx(187, rel=0.1)
    assert max(call.output_tokens for call in calls) == 2000
    assert statistics.median(call.prompt_parts[-1][1] for call in calls if call.prompt_parts) == pytest.approx(29, rel=0.1)
    assert statistics.median(call.tool_gap_s for call in calls if call.tool_gap_s is not None) == pytest.approx(132, rel=0.1)
    assert prefix_reuse(programs) > 0.95


def test_a_chat_prompt_is_the_one_before_its_answer_and_a_question() -> None:
    for program in make("chat", 50):
        parts = program_parts(program)
        for parent, child in itertools.pairwise(program.calls):
            assert child.parents == (parent.call_id,)
            assert parts[child.call_id].prompt[:-1] == (*parts[parent.call_id].prompt, parts[parent.call_id].answer)
        assert program.calls[-1].after == "end"
        assert program.calls[-1].tool_gap_s is None


def test_people_can_be_made_to_answer_sooner() -> None:
    slow, fast = calls_of(make("chat", 20)), calls_of(make("chat", 20, human_gap_scale=0.1))
    gaps = [(s.tool_gap_s, f.tool_gap_s) for s, f in zip(slow, fast, strict=True) if s.tool_gap_s is not None]
    assert gaps
    assert all(f == pytest.approx(s / 10) for s, f in gaps)


def test_react_has_the_statistics_of_bfcl() -> None:
    programs = make("react")
    calls = calls_of(programs)
    assert mean_calls(programs) == pytest.approx(10.75, rel=0.06)
    assert statistics.fmean(call.output_tokens for call in calls) == pytest.approx(34, rel=0.06)
    assert prefix_reuse(programs) == pytest.approx(0.89, abs=0.03)
    turns = [sum(call.kind == "closing" for call in program.calls) for program in programs]
    assert (min(turns), max(turns)) == (3, 8)
    stuck = [program for program in programs if longest_turn(program) >= 20]
    assert 5 <= len(stuck) <= 45


def longest_turn(program: Program) -> int:
    closings = [index for index, call in enumerate(program.calls) if call.kind == "closing"]
    return max(end - start - 1 for start, end in zip([-1, *closings], closings, strict=False))


def test_react_programs_of_one_tool_set_share_its_system_prompt() -> None:
    programs = make("react", 200, num_tool_sets=5)
    systems = {program.calls[0].prompt_parts[0] for program in programs if program.calls[0].prompt_parts}
    assert sorted(tokens for _, tokens in systems) == [1500, 2875, 4250, 5625, 7000]
    assert len({name for name, _ in systems}) == 5
    tree = PrefixTree()
    for program in programs:
        reused_and_all_tokens(program, tree)
    for name, tokens in systems:
        assert tree.match(((name, tokens), ("never seen", 1))) == tokens


def test_tree_has_the_statistics_of_lats() -> None:
    programs = make("tree", 500)
    calls = calls_of(programs)
    assert mean_calls(programs) == pytest.approx(160, rel=0.06)
    assert statistics.fmean(call.prompt_tokens for call in calls) == pytest.approx(467, rel=0.05)
    assert statistics.fmean(call.output_tokens for call in calls) == pytest.approx(73, rel=0.03)
    assert prefix_reuse(programs) > 0.85


def test_tree_levels_are_equal_samples_then_values_then_a_barrier() -> None:
    for program in make("tree", 30):
        calls, barrier = list(program.calls), tuple[str, ...]()
        while calls:
            samples, calls = calls[:5], calls[5:]
            assert {(c.kind, c.parents, c.prompt_parts) for c in samples} == {("sample", barrier, samples[0].prompt_parts)}
            num_values = next((i for i, call in enumerate(calls) if call.kind == "sample"), len(calls))
            values, calls = calls[:num_values], calls[num_values:]
            assert 2 <= len(values) <= 5
            assert {value.parents for value in values} == {tuple(sample.call_id for sample in samples)}
            assert len({value.prompt_parts for value in values}) == len(values)
            barrier = tuple(value.call_id for value in values)


def test_a_tree_level_adds_100_to_400_tokens() -> None:
    for program in make("tree", 30):
        samples = [call for call in program.calls if call.kind == "sample"][::5]
        for before, after in itertools.pairwise(samples):
            if after.step:
                assert 100 <= after.prompt_tokens - before.prompt_tokens <= 400


def test_map_reduce_forks_and_joins() -> None:
    programs = make("map_reduce", 300)
    for program in programs:
        split, *maps, reduce = program.calls
        assert 4 <= len(maps) <= 16
        assert {call.parents for call in maps} == {(split.call_id,)}
        assert reduce.parents == tuple(call.call_id for call in maps)
        assert [part for call in maps for part in (call.prompt_parts or ())[1:]] == list((split.prompt_parts or ())[1:])
        assert reduce.prompt_tokens == 160 + sum(call.output_tokens for call in maps)


def test_mixed_is_equal_thirds() -> None:
    programs = make("mixed", 99)
    assert [program.workload for program in programs[:3]] == ["chat", "react", "tree"]
    assert {kind: sum(p.workload == kind for p in programs) for kind in ("chat", "react", "tree")} == dict.fromkeys(
        ("chat", "react", "tree"), 33
    )
    assert len({program.program_id for program in programs}) == 99
