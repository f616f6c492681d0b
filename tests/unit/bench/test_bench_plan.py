"""Choice, order, arrival and names of programs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentix.bench.errors import BenchError
from agentix.bench.plan import Plan, fits, make_plan
from agentix.workload import Call, Program


def program(name: str, *, prompt_tokens: int = 10, output_tokens: int = 5, has_text: bool = True) -> Program:
    messages = ({"role": "user", "content": name},) if has_text else None
    only = Call(call_id="c", parents=(), prompt_tokens=prompt_tokens, output_tokens=output_tokens, messages=messages)
    return Program(program_id=name, workload="w", calls=(only,))


TRACE = [program(f"p{i}") for i in range(20)]


def plan(programs: list[Program] = TRACE, **options: Any) -> Plan:
    defaults: dict[str, Any] = {
        "run_id": "r",
        "num_programs": 10,
        "rate_per_s": 1.0,
        "seed": 1,
        "max_model_len": None,
        "context_margin": 1.3,
    }
    return make_plan(programs, **defaults | options)


def names(made: Plan) -> list[str]:
    return [planned.source.program_id for planned in made.programs]


def test_the_seed_decides_everything() -> None:
    assert plan() == plan()
    assert names(plan()) != names(plan(seed=2))
    assert [p.arrival_s for p in plan().programs] != [p.arrival_s for p in plan(seed=2).programs]


def test_arrivals_do_not_depend_on_the_workload_nor_order_on_the_rate() -> None:
    assert [p.arrival_s for p in plan().programs] == [p.arrival_s for p in plan(TRACE[:10]).programs]
    assert names(plan()) == names(plan(rate_per_s=9.0))


def test_no_program_twice_while_there_are_others() -> None:
    made = plan(num_programs=20)
    assert sorted(names(made)) == sorted(p.program_id for p in TRACE)
    assert made.num_repeated == 0


def test_a_short_trace_is_gone_through_again_under_new_ids() -> None:
    made = plan(TRACE[:3], num_programs=7)
    assert made.num_repeated == 4
    assert {names(made).count(name) for name in ("p0", "p1", "p2")} <= {2, 3}
    assert len({p.program_id for p in made.programs}) == 7


def test_ids_carry_the_run_and_are_safe_in_headers_and_paths() -> None:
    (planned,) = plan([program("é a/b,c\n\ud800")], num_programs=1).programs
    assert planned.program_id == "r-0-%C3%A9%20a%2Fb%2Cc%0A%3F"


@pytest.mark.parametrize(("limit", "fitting"), [(None, True), (18, True), (17, False)])
def test_context_is_margin_times_prompt_plus_output(limit: int | None, fitting: bool) -> None:
    assert fits(program("p"), max_model_len=limit, context_margin=1.3) is fitting  # 13 + 5


def test_too_long_programs_are_skipped_before_sampling_and_counted() -> None:
    made = plan([*TRACE[:2], program("long", prompt_tokens=1000)], num_programs=2, max_model_len=100)
    assert made.num_skipped_too_long == 1
    assert sorted(names(made)) == ["p0", "p1"]


@pytest.mark.parametrize(
    ("programs", "problem"),
    [
        ([], "holds no programs"),
        ([program("p", has_text=False)], "'p' has no message text: a length-only trace cannot be replayed"),
        ([program("p", prompt_tokens=1000)], "none of the 1 programs fits the model's context of 100 tokens"),
    ],
)
def test_refuses(programs: list[Program], problem: str) -> None:
    with pytest.raises(BenchError, match=problem):
        plan(programs, max_model_len=100)


def test_all_at_once() -> None:
    assert {p.arrival_s for p in plan(rate_per_s=math.inf).programs} == {0.0}
