"""Load balancers: which engine a call goes to first, and the order of the others."""

from __future__ import annotations

import pytest

from agentix.core import BALANCERS, ConfigError, EngineView, LoadBalancer, ProgramRow, make_balancer
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


@pytest.mark.parametrize("name", [name for name in BALANCERS.names if name != "power_of_two"])
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


@pytest.mark.parametrize(
    "balancer", [ProgramAffinity(long_prompt_tokens=10), make_balancer("program_affinity+long_prompt_tokens=10")]
)
def test_the_threshold_of_affinity_can_be_set(balancer: LoadBalancer) -> None:
    assert balancer.route(10, at_home("e0"), engines(9, 0)).engine_ids[0] == "e1"
    assert balancer.route(11, at_home("e0"), engines(9, 0)).engine_ids[0] == "e0"


def test_an_unknown_balancer_is_an_error_that_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"unknown balancer 'best'.*least_used, power_of_two, .*round_robin, session_hash"):
        make_balancer("best")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("program_affinity+long=9", r"unknown option of balancer 'program_affinity' 'long'; known: long_prompt_tokens, min"),
        ("program_affinity+long_prompt_tokens=many", r"long_prompt_tokens must be a number, not 'many'"),
        ("program_affinity+long_prompt_tokens", r"long_prompt_tokens must be a number, not ''"),
        ("program_affinity+long_prompt_tokens=-1", r"long_prompt_tokens must not be negative: -1"),
        ("least_used+x=1", r"unknown option of balancer 'least_used' 'x'"),
        ("prefix_aware+min_match=1.5", r"0 <= min_match <= 1, not 64, 1.5 and 1.5"),
        ("prefix_aware+times_calls=nan", r"times_calls >= 1"),
    ],
)
def test_an_option_that_is_not_there_or_makes_no_sense_is_an_error_that_names_it(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_balancer(spec)


def drawn_first(loads: tuple[int, ...], num_draws: int) -> list[str]:
    """Where the power of two sends one call after another, each of another program, at loads that stay the same."""
    balancer, firsts = make_balancer("power_of_two"), []
    for n in range(num_draws):
        views = [EngineView(engine_id=f"e{i}", num_calls=load, num_routed=n * (i == 0)) for i, load in enumerate(loads)]
        firsts.append(balancer.route(LONG, ProgramRow(program_id=f"p{n}", started_s=0.0), views).engine_ids[0])
    return firsts


def test_power_of_two_never_takes_the_busiest_engine_and_most_often_the_least_used() -> None:
    """Of the pairs of three engines, two hold the least used one: 2/3 of the draws, the next in load 1/3."""
    firsts = drawn_first((0, 5, 9), 3000)
    assert firsts.count("e2") == 0
    assert 1900 < firsts.count("e0") < 2100


def test_power_of_two_draws_every_engine_alike() -> None:
    """Of the six pairs of four engines three hold the empty e2; of the others e0 leads two and e1 one, as ties keep order."""
    firsts = drawn_first((1, 1, 0, 1), 3000)
    assert 1400 < firsts.count("e2") < 1600
    assert 900 < firsts.count("e0") < 1100
    assert 400 < firsts.count("e1") < 600


def test_power_of_two_ranks_the_other_of_the_pair_second_and_the_rest_by_load() -> None:
    views = engines(4, 3, 2, 1, 0)
    for n in range(50):
        ids = make_balancer("power_of_two").route(None, ProgramRow(program_id=f"p{n}", started_s=0.0), views).engine_ids
        assert ids[0] > ids[1]  # e4 is the least used
        assert list(ids[2:]) == sorted(ids[2:], reverse=True)


def test_power_of_two_answers_the_same_question_in_the_same_way_and_knows_one_engine() -> None:
    balancer, views = make_balancer("power_of_two"), engines(1, 1, 1, 1)
    assert len({balancer.route(LONG, at_home("e0"), views).engine_ids for _ in range(9)}) == 1
    assert balancer.route(LONG, None, engines(7)).engine_ids == ("e0",)


def cached(*pairs: tuple[int, int | None]) -> list[EngineView]:
    """e0, e1, … with (calls in it, tokens of the prompt that it holds)."""
    return [EngineView(engine_id=f"e{i}", num_calls=n, cached_tokens=tokens) for i, (n, tokens) in enumerate(pairs)]


def test_prefix_aware_goes_by_the_longest_cached_prefix_then_by_load() -> None:
    route = make_balancer("prefix_aware").route(1000, None, cached((5, 400), (9, 800), (0, 0), (1, 400)))
    assert route.engine_ids == ("e1", "e3", "e0", "e2")


def test_prefix_aware_leaves_an_engine_that_is_overloaded() -> None:
    """e1 holds the prefix. It may have 10 calls more than the least used one, and if that has many, twice as many."""
    balancer = make_balancer("prefix_aware+more_calls=10+times_calls=2")
    assert balancer.route(1000, None, cached((3, 0), (13, 900), (4, 400))).engine_ids == ("e1", "e2", "e0")
    assert balancer.route(1000, None, cached((3, 0), (14, 900), (4, 400))).engine_ids == ("e2", "e0", "e1")
    assert balancer.route(1000, None, cached((20, 0), (40, 900))).engine_ids == ("e1", "e0")
    assert balancer.route(1000, None, cached((20, 0), (41, 900))).engine_ids == ("e0", "e1")


def test_prefix_aware_counts_a_short_match_as_none() -> None:
    """Three tenths of the prompt, unless set otherwise: a common system prompt alone should not fill one engine."""
    views = cached((1, 300), (0, 299))
    assert make_balancer("prefix_aware").route(1000, None, views).engine_ids == ("e0", "e1")
    assert make_balancer("prefix_aware").route(1001, None, views).engine_ids == ("e1", "e0")
    assert make_balancer("prefix_aware").route(None, None, views).engine_ids == ("e0", "e1")


def test_prefix_aware_is_least_used_where_caches_are_unknown() -> None:
    balancer = make_balancer("prefix_aware")
    assert balancer.uses_cached_tokens
    assert balancer.route(1000, at_home("e0"), cached((3, None), (0, None), (2, None))).engine_ids == ("e1", "e2", "e0")


def hashed_to(num_programs: int, engine_ids: tuple[str, ...]) -> dict[str, str]:
    """The engine of each program under `session_hash`."""
    views = [EngineView(engine_id=engine_id) for engine_id in engine_ids]
    rows = [ProgramRow(program_id=f"p{n}", started_s=0.0) for n in range(num_programs)]
    return {row.program_id: make_balancer("session_hash").route(LONG, row, views).engine_ids[0] for row in rows}


def test_session_hash_spreads_programs_evenly_whatever_the_load() -> None:
    """1000 programs on each of three engines in the mean, with a standard deviation of 26."""
    places = list(hashed_to(3000, ("e0", "e1", "e2")).values())
    assert all(900 < places.count(engine_id) < 1100 for engine_id in ("e0", "e1", "e2"))
    row = ProgramRow(program_id="p", started_s=0.0)
    assert len({make_balancer("session_hash").route(SHORT, row, engines(n, 5, 5)).engine_ids for n in (0, 99)}) == 1


def test_session_hash_moves_the_programs_of_an_engine_that_goes_and_no_others() -> None:
    before, after = hashed_to(300, ("e0", "e1", "e2")), hashed_to(300, ("e2", "e0"))
    assert all(after[program_id] == engine_id for program_id, engine_id in before.items() if engine_id != "e1")


def test_session_hash_does_not_hash_what_it_does_not_know() -> None:
    assert make_balancer("session_hash").route(LONG, None, engines(2, 0, 1)).engine_ids == ("e1", "e2", "e0")
