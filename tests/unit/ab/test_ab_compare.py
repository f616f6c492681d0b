"""Numbers of runs, and ratios within repeats."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from ab_runs import document
from agentix.ab.arms import find_arm
from agentix.ab.compare import ALL, LONGER, SHORTER, Run, Spread, compare, group_programs, read_run, spread
from agentix.ab.config import Case
from agentix.ab.display import print_notes, print_tables


def run(arm: str, repeat: int, *programs: tuple[str, int, float | None], makespan_s: float = 9.0, load: float = 1.0) -> Run:
    case = Case(arm=find_arm(arm, {}), repeat=repeat, seed=repeat, rate_per_s=1.0, load=load)
    return read_run(case, document(*programs, makespan_s=makespan_s))


def test_programs_are_grouped_by_kind_and_by_length() -> None:
    groups = group_programs(
        document(("react", 4, 1.0), ("chat", 2, 1.0), ("chat", 9, 1.0), ("react", 3, 1.0), ("chat", 4, 1.0))
    )
    ids = {name: [program["program_id"] for program in programs] for name, programs in groups.items()}
    assert ids == {
        ALL: ["p0", "p1", "p2", "p3", "p4"],
        "chat": ["p1", "p2", "p4"],
        "react": ["p0", "p3"],
        SHORTER: ["p0", "p1", "p3", "p4"],  # at most the median of 4 tokens
        LONGER: ["p2"],
    }


def test_one_kind_of_one_length_is_one_group_and_no_program_is_longer() -> None:
    assert list(group_programs(document(("chat", 2, 1.0), ("chat", 2, 1.0)))) == [ALL, SHORTER]


def test_the_numbers_of_a_run() -> None:
    numbers = run("plas", 1, ("chat", 10, 1.0), ("chat", 10, 3.0), ("chat", 10, None)).groups[ALL]
    assert numbers == {
        "program_token_latency_s.mean": pytest.approx(0.2),
        "program_token_latency_s.p95": pytest.approx(0.29),
        "program_token_latency_s.p99": pytest.approx(0.298),
        "jct_s.mean": 2.0,
        "jct_s.p95": pytest.approx(2.9),
        "jct_s.p99": pytest.approx(2.98),
        "makespan_s": 9.0,
    }


def test_ratios_are_taken_within_repeats_and_then_summed_up() -> None:
    runs = [
        run("plas", 1, ("chat", 1, 1.0), makespan_s=8.0),
        run("stock-fcfs", 1, ("chat", 1, 4.0), makespan_s=8.0),
        run("stock-fcfs", 2, ("chat", 1, 10.0), makespan_s=4.0),
        run("plas", 2, ("chat", 1, 5.0), makespan_s=5.0),
        run("stock-fcfs", 3, ("chat", 1, 2.0)),
        run("plas", 3, ("chat", 1, 3.0)),
    ]
    first, plas = (c for c in compare(runs, first_arm="stock-fcfs") if c.group == ALL)
    assert (first.arm, plas.arm, plas.point, plas.num_programs) == ("stock-fcfs", "plas", "load1", 1)
    assert first.ratios["jct_s.mean"] == Spread(median=1.0, min=1.0, max=1.0, num_repeats=3)
    assert plas.values["jct_s.mean"] == Spread(median=3.0, min=1.0, max=5.0, num_repeats=3)
    assert plas.ratios["jct_s.mean"] == Spread(median=0.5, min=0.25, max=1.5, num_repeats=3)  # not 3.0 / 4.0
    assert plas.ratios["makespan_s"] == Spread(median=1.0, min=1.0, max=1.25, num_repeats=3)


def test_a_repeat_without_the_first_arm_and_a_number_that_does_not_exist_give_no_ratio() -> None:
    runs = [
        run("stock-fcfs", 1, ("chat", 1, None)),
        run("plas", 1, ("chat", 1, 2.0)),
        run("stock-fcfs", 2, ("chat", 1, 4.0)),
        run("plas", 2, ("chat", 1, 2.0)),
        run("plas", 3, ("chat", 1, 7.0)),
        run("plas", 1, ("chat", 1, 5.0), load=2.0),
    ]
    _, plas, alone = (c for c in compare(runs, first_arm="stock-fcfs") if c.group == ALL)
    assert plas.values["jct_s.mean"].num_repeats == 3
    assert plas.ratios["jct_s.mean"] == Spread(median=0.5, min=0.5, max=0.5, num_repeats=1)
    assert (alone.point, alone.ratios) == ("load2", {})


def test_points_and_groups_stand_together_with_the_first_arm_first() -> None:
    programs: Sequence[tuple[str, int, float]] = (("a", 1, 1.0), ("b", 2, 1.0))
    runs = [run(arm, 1, *programs, load=load) for load in (2.0, 0.5) for arm in ("plas", "stock-fcfs")]
    assert [(c.point, c.group, c.arm) for c in compare(runs, first_arm="stock-fcfs")] == [
        (point, group, arm)
        for point in ("load2", "load0.5")
        for group in (ALL, "a", "b", SHORTER, LONGER)
        for arm in ("stock-fcfs", "plas")
    ]


def test_a_spread_of_an_even_number_and_of_nothing() -> None:
    assert spread([4.0, None, 1.0]) == Spread(median=2.5, min=1.0, max=4.0, num_repeats=2)
    assert spread([None]) is None


def test_the_tables_show_medians_and_spreads() -> None:
    runs = [
        run(arm, repeat, ("chat", 10, jct_s), ("tree", 30, 3 * jct_s), makespan_s=30.0)
        for arm, repeat, jct_s in [("stock-fcfs", 1, 4.0), ("plas", 1, 1.0), ("stock-fcfs", 2, 10.0), ("plas", 2, 5.0)]
    ]
    console = Console(file=io.StringIO(), width=40)
    print_tables(runs, first_arm="stock-fcfs", console=console)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert "load1: 2 repeats, 2 programs each" in lines
    assert "stock-fcfs 700 700 700 14 20.3 20.9 30 1.00 [1.00-1.00] 1.00 [1.00-1.00]" in lines
    assert "plas 300 300 300 6 8.7 8.94 30 0.38 [0.25-0.50] 0.38 [0.25-0.50]" in lines
    assert "tree stock-fcfs 1 700 700 21 21 1.00 [1.00-1.00] 1.00 [1.00-1.00]" in lines
    assert "plas 0.25 – – – – –" in lines


def test_what_spoils_a_comparison_is_said() -> None:
    console = Console(file=io.StringIO(), width=200)
    print_notes([run("plas", 1, ("chat", 1, None)), run("plas", 2, ("chat", 1, 1.0))], console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said == "1 calls of a run failed: their programs are in no latency\n"
