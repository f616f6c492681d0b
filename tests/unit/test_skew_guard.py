"""The skew guard of program affinity: when a program leaves its home, and that it does not go to and fro."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import CallRow, ConfigError, EngineView, LoadBalancer, ProgramRow, Route, make_balancer

LONG = 4000  # tokens: at PREFILL_S each 0.04 s to compute again; times 11 where ten calls run
PREFILL_S = 1e-5


def queueing(*num_waiting: int, call_s: float | None = 2.0, prefill_s_per_token: float | None = PREFILL_S) -> list[EngineView]:
    """e0, e1, … that run ten calls each, of `call_s` seconds: a waiting call is 0.2 s of queue."""
    return [
        EngineView(
            engine_id=f"e{i}",
            num_calls=10 + n,
            num_waiting=n,
            call_s=call_s,
            prefill_s_per_token=prefill_s_per_token,
        )
        for i, n in enumerate(num_waiting)
    ]


def at_home(engine_id: str | None, *, num_calls: int = 0, context_tokens: int = 0) -> ProgramRow:
    calls = {f"c{i}": CallRow(call_id=f"c{i}", program_id="p", arrived_s=0.0) for i in range(num_calls)}
    return ProgramRow(program_id="p", started_s=0.0, home_engine_id=engine_id, calls=calls, context_tokens=context_tokens)


def affinity(options: str = "") -> LoadBalancer:
    return make_balancer(f"program_affinity{options}")


def test_a_queue_is_the_calls_that_wait_over_the_rate_at_which_calls_end() -> None:
    assert queueing(5)[0].queue_s == pytest.approx(5 * 2.0 / 10)
    assert EngineView(engine_id="e", num_calls=4, num_waiting=4, call_s=2.0).queue_s == 8.0  # about to begin: one at a time
    assert EngineView(engine_id="e", num_calls=4, num_waiting=0).queue_s == 0.0
    assert EngineView(engine_id="e", num_calls=4, num_waiting=1).queue_s is None
    assert EngineView(engine_id="e", num_calls=4, call_s=2.0).queue_s is None


@pytest.mark.parametrize(
    ("num_waiting", "options", "first"),
    [
        (2, "", "e0"),  # 0.4 s of queue saved for 0.44 s of everybody's time there
        (3, "", "e2"),
        (1, "+min_gain=0.5", "e0"),
        (2, "+min_gain=0.5", "e2"),
        (4, "+min_gain=2", "e0"),
        (5, "+min_gain=2", "e2"),
        (1, "+min_gain=0", "e2"),
        (1000, "+min_gain=inf", "e0"),
    ],
)
def test_a_program_leaves_when_waiting_costs_more_than_computing_its_context_again(
    num_waiting: int, options: str, first: str
) -> None:
    route = affinity(options).route(LONG, at_home("e0"), queueing(num_waiting, 3, 0, 0))
    assert route.engine_ids[0] == first
    assert route.pin
    if first == "e2":
        assert route.reason == f"moved: {num_waiting * 0.2:.2f} s wait at home, 0.00 s here; price 0.44 s"
        assert route.engine_ids[1] == "e3"  # the others follow by load
    else:
        assert route.reason == "home"


def test_what_waits_at_the_other_engine_makes_it_dearer_and_worth_less() -> None:
    """To e1, where one waits: 0.4 s of queue saved for 0.04 x 12 s; 0.6 s are worth that."""
    assert affinity().route(LONG, at_home("e0"), queueing(3, 1)).engine_ids[0] == "e0"
    assert affinity().route(LONG, at_home("e0"), queueing(4, 1)).engine_ids[0] == "e1"


@pytest.mark.parametrize(("num_threads", "num_waiting"), [(0, 3), (1, 2), (3, 1)])
def test_threads_share_the_price_and_leave_their_program_s_home_where_it_is(num_threads: int, num_waiting: int) -> None:
    """0.44 s alone, 0.22 s for two, 0.11 s for four: worth it from so many waiting calls on, of 0.2 s each."""
    row = at_home("e0", num_calls=num_threads)
    assert affinity().route(LONG, row, queueing(num_waiting - 1, 0)).engine_ids[0] == "e0"
    route = affinity().route(LONG, row, queueing(num_waiting, 0))
    assert (route.engine_ids, route.pin) == (("e1", "e0"), num_threads == 0)


def test_a_short_prompt_is_weighed_like_any_other() -> None:
    """100 tokens are 0.001 s; what takes so little is worth no queue, and home is as good as any without one."""
    assert affinity().route(100, at_home("e0"), queueing(1, 0)).engine_ids[0] == "e1"
    assert affinity().route(100, at_home("e1"), queueing(0, 0)).engine_ids[0] == "e1"


def test_the_first_call_makes_the_least_used_engine_the_home() -> None:
    route = affinity().route(100, at_home(None), queueing(9, 0, 1))
    assert (route.engine_ids, route.pin, route.reason) == (("e1", "e2", "e0"), True, "least used, now home")


def test_a_call_of_unknown_length_is_taken_to_have_its_program_s_context() -> None:
    assert affinity().route(None, at_home("e0", context_tokens=LONG), queueing(3, 0)).engine_ids[0] == "e1"
    assert affinity().route(None, at_home("e0", context_tokens=2 * LONG), queueing(3, 0)).engine_ids[0] == "e0"
    assert affinity().route(None, at_home("e0"), queueing(900, 0)).engine_ids[0] == "e0"


@pytest.mark.parametrize(
    ("options", "views"),
    [
        ("", queueing(900, 0, prefill_s_per_token=None)),
        ("", queueing(900, 800, call_s=None)),
        ("", [EngineView(engine_id="e0", num_calls=910), EngineView(engine_id="e1", num_calls=10)]),
        ("+min_gain=inf", queueing(900, 0)),
    ],
)
def test_where_nothing_is_weighed_length_decides_alone(options: str, views: list[EngineView]) -> None:
    route = affinity(options).route(2049, at_home("e0"), views)
    assert (route.engine_ids[0], route.pin, route.reason) == ("e0", True, "home")
    route = affinity(options).route(2048, at_home("e0"), views)
    assert (route.engine_ids[0], route.pin, route.reason) == ("e1", False, "short prompt: least used")


@pytest.mark.parametrize("gain", ["-1", "nan"])
def test_a_gain_that_makes_no_sense_is_an_error(gain: str) -> None:
    with pytest.raises(ConfigError, match=f"min_gain must not be negative: {float(gain)}"):
        affinity(f"+min_gain={gain}")


num_calls = st.integers(0, 50)
views_drawn = st.lists(
    st.builds(
        lambda running, waiting, call_s, prefill_s, knows: (running, waiting, call_s, prefill_s, knows),
        num_calls,
        num_calls,
        st.none() | st.floats(0, 100),
        st.none() | st.floats(0, 0.01),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
).map(
    lambda drawn: [
        EngineView(
            engine_id=f"e{i}",
            num_calls=running + waiting,
            num_waiting=waiting if knows else None,
            call_s=call_s,
            prefill_s_per_token=prefill_s,
        )
        for i, (running, waiting, call_s, prefill_s, knows) in enumerate(drawn)
    ]
)
homes = st.none() | st.sampled_from(["e0", "e1", "e4", "gone"])
gains = st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf])
lengths = st.none() | st.integers(0, 100_000)


def place(route: Route) -> str:
    return route.engine_ids[0]


@given(views=views_drawn, home=homes, min_gain=gains, prompt_tokens=lengths, others=st.integers(0, 2))
def test_every_engine_is_ranked_exactly_once(
    views: list[EngineView], home: str | None, min_gain: float, prompt_tokens: int | None, others: int
) -> None:
    route = affinity(f"+min_gain={min_gain}").route(prompt_tokens, at_home(home, num_calls=others), views)
    assert sorted(route.engine_ids) == [view.engine_id for view in views]


@given(
    num_engines=st.integers(1, 5),
    waiting=num_calls,
    min_gain=gains,
    prompt_tokens=st.integers(2049, 100_000),
    prefill_s=st.floats(0, 0.01),
)
def test_nobody_moves_between_queues_that_are_equal(
    num_engines: int, waiting: int, min_gain: float, prompt_tokens: int, prefill_s: float
) -> None:
    views = queueing(*[waiting] * num_engines, prefill_s_per_token=prefill_s)
    for home in (view.engine_id for view in views):
        assert place(affinity(f"+min_gain={min_gain}").route(prompt_tokens, at_home(home), views)) == home


@given(views=views_drawn, home=homes, min_gain=gains, prompt_tokens=st.integers(2049, 100_000))
def test_who_has_moved_stays_as_long_as_the_loads_are_the_same(
    views: list[EngineView], home: str | None, min_gain: float, prompt_tokens: int
) -> None:
    balancer = affinity(f"+min_gain={min_gain}")
    moved_to = place(balancer.route(prompt_tokens, at_home(home), views))
    assert place(balancer.route(prompt_tokens, at_home(moved_to), views)) in (
        {moved_to} if home in {view.engine_id for view in views} else {view.engine_id for view in views}
    )


@given(views=views_drawn, home=homes, min_gain=gains, prompt_tokens=lengths, num_threads=st.integers(0, 9))
def test_a_move_saves_more_than_it_costs(
    views: list[EngineView], home: str | None, min_gain: float, prompt_tokens: int | None, num_threads: int
) -> None:
    route = affinity(f"+min_gain={min_gain}").route(prompt_tokens, at_home(home, num_calls=num_threads), views)
    if not route.reason.startswith("moved"):
        return
    by_id = {view.engine_id: view for view in views}
    here, left = by_id[place(route)], by_id[home or ""]
    assert here is not left
    assert here.queue_s is not None
    assert left.queue_s is not None
    price_s = (here.prefill_s_per_token or 0.0) * (prompt_tokens or 0) * (1 + here.num_calls) / (1 + num_threads)
    assert left.queue_s - here.queue_s > min_gain * price_s
    assert route.pin == (num_threads == 0)
