"""Load balancers: which engine a call goes to first, and the order of the others."""

from __future__ import annotations

import pytest

from agentix.core import BALANCERS, ConfigError, EngineView, ProgramRow, make_balancer
from agentix.core.balancers.program_affinity import ProgramAffinity

LONG, SHORT = 2049, 2048  # tokens: 2048 is still short (paper, algorithm 2)


def engines(*loads: int) -> list[EngineView]:
    """e0, e1, … with so many calls in them; the busier, the fewer they have been sent in all."""
    return [EngineView(engine_id=f"e{i}", num_calls=load, num_routed=100 - load) for i, load in enumerate(loads)]


def at_home(engine_id: str | None) -> ProgramRow:
    return ProgramRow(program_id="p", started_s=0.0, home_engine_id=engine_id, engine_ids=["e0", "e1", "e2"])


@pytest.mark.parametrize("name", BALANCERS.names)
@pytest.mark.parametrize("prompt_tokens", [None, SHORT, LONG])
@pytest.mark.parametrize("home", [None, "e0", "e2", "gone"])
def test_every_engine_is_ranked_exactly_once(name: str, prompt_tokens: int | None, home: str | None) -> None:
    route = make_balancer(name).route(prompt_tokens, at_home(home), engines(3, 1, 2, 1))
    assert sorted(route.engine_ids) == ["e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("name", BALANCERS.names)
def test_ties_keep_the_order_in_which_the_engines_were_given(name: str) -> None:
    views = [EngineView(engine_id=engine_id) for engine_id in ("e2", "e0", "e1")]
    assert make_balancer(name).route(SHORT, None, views).engine_ids == ("e2", "e0", "e1")


def test_least_used_goes_by_the_calls_in_an_engine_now() -> None:
    route = make_balancer("least_used").route(LONG, at_home("e0"), engines(3, 0, 2))
    assert route.engine_ids == ("e1", "e2", "e0")
    assert not route.pin


def test_round_robin_goes_by_the_calls_ever_sent() -> None:
    route = make_balancer("round_robin").route(LONG, at_home("e1"), engines(3, 0, 2))
    assert route.engine_ids == ("e0", "e2", "e1")
    assert not route.pin


def test_round_robin_takes_turns() -> None:
    routed, turns = {"e0": 0, "e1": 0, "e2": 0}, []
    for _ in range(6):
        views = [EngineView(engine_id=engine_id, num_routed=n) for engine_id, n in routed.items()]
        turns.append(make_balancer("round_robin").route(None, None, views).engine_ids[0])
        routed[turns[-1]] += 1
    assert turns == ["e0", "e1", "e2", "e0", "e1", "e2"]


def test_affinity_sends_a_long_call_home_however_busy_that_is() -> None:
    route = make_balancer("program_affinity").route(LONG, at_home("e0"), engines(9, 1, 0))
    assert route.engine_ids == ("e0", "e2", "e1")
    assert route.pin


def test_affinity_sends_a_call_at_the_threshold_to_the_least_used_engine_and_does_not_pin() -> None:
    route = make_balancer("program_affinity").route(SHORT, at_home("e0"), engines(9, 1, 0))
    assert route.engine_ids == ("e2", "e1", "e0")
    assert not route.pin


def test_affinity_takes_a_call_of_unknown_length_for_long() -> None:
    route = make_balancer("program_affinity").route(None, at_home("e0"), engines(9, 1, 0))
    assert route.engine_ids[0] == "e0"
    assert route.pin


@pytest.mark.parametrize("row", [None, at_home(None), at_home("gone")])
def test_affinity_makes_the_least_used_engine_the_home_of_a_program_without_one(row: ProgramRow | None) -> None:
    route = make_balancer("program_affinity").route(LONG, row, engines(9, 1, 0))
    assert route.engine_ids == ("e2", "e1", "e0")
    assert route.pin


def test_the_threshold_of_affinity_can_be_set() -> None:
    balancer = ProgramAffinity(long_prompt_tokens=10)
    assert balancer.route(10, at_home("e0"), engines(9, 0)).engine_ids[0] == "e1"
    assert balancer.route(11, at_home("e0"), engines(9, 0)).engine_ids[0] == "e0"


def test_an_unknown_balancer_is_an_error_that_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"unknown balancer 'best'.*least_used, program_affinity, round_robin"):
        make_balancer("best")
