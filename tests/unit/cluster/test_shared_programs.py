"""What one gateway tells of a program reaches the others, through a real server, once and whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from agentix.core.events import Attained, CallArrived
from table_gateway import Gateway
from table_server import Server, table_server

Make = Callable[..., Gateway]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with table_server() as server:
        yield server


@pytest.fixture
def make(server: Server) -> Iterator[Make]:
    """Makes gateways that share a table which is empty at first."""
    loop, made = asyncio.new_event_loop(), []
    with server.client as client:
        client.flushall()

    def make_gateway(**settings: float) -> Gateway:
        made.append(Gateway(server.url, loop=loop, **settings))
        return made[-1]

    yield make_gateway
    for gateway in made:
        gateway.close()
    loop.close()


def settle(*gateways: Gateway) -> None:
    """All of them tell all there is, and hear all of it."""
    for _ in range(2):
        for gateway in gateways:
            gateway.catch_up()


def test_totals_are_the_sum_over_gateways(make: Make) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    a.finish(a.arrive("p"), 0.5, 4.0, aborted=True)
    b.call("p", 8.0)
    settle(a, b)
    assert a.totals() == b.totals() == (10.5, 4.0, 2, 1)
    assert a.row().critical_path_s == 8.0  # no gateway has seen a longer path
    b.call("p", 1.0)
    settle(b, a)
    assert a.totals() == b.totals() == (11.5, 4.0, 3, 1)


def test_a_gateway_that_comes_later_knows_all_programs(make: Make) -> None:
    a = make()
    a.call("p", 2.0)
    a.open("q", "coder")
    settle(a)
    late = make()
    late.exchange()
    assert late.totals() == (2.0, 0.0, 1, 0)
    assert late.row("q").program_class == "coder"
    assert late.served == ["p", "q"]


def test_more_changes_than_go_into_an_exchange_come_in_several(make: Make) -> None:
    a, b = make(), make()
    for n in range(5):
        a.call(f"p{n}")
    for _ in range(3):
        a.exchange(most=2)
    for expected in (["p0", "p1"], ["p0", "p1", "p2", "p3"], ["p0", "p1", "p2", "p3", "p4"]):
        b.exchange(most=2)
        assert list(b.table.rows) == expected


def test_what_a_gateway_tells_it_does_not_hear_again(make: Make) -> None:
    a = make()
    a.call("p")
    a.catch_up()
    assert a.served == []
    assert a.totals() == (1.0, 0.0, 1, 0)


@pytest.mark.parametrize("sent", [False, True])
def test_an_exchange_of_which_nobody_knows_whether_it_came_through_counts_once(make: Make, sent: bool) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    a.exchange(sent=sent, answered=False)
    a.call("p", 4.0)
    settle(a, b)
    assert b.totals() == a.totals() == (6.0, 0.0, 2, 0)


def test_a_server_that_has_forgotten_everything_is_told_again(make: Make, server: Server) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    b.call("p", 4.0)
    settle(a, b)
    with server.client as client:
        client.flushall()
    a.call("p", 1.0)
    settle(a, b)
    late = make()
    late.exchange()
    assert a.totals() == b.totals() == late.totals() == (7.0, 0.0, 3, 0)


def test_what_a_gateway_has_told_outlives_it(make: Make) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    a.exchange()
    a.call("p", 4.0)  # never told
    again = make()  # another run is another gateway, even on the same machine
    again.call("p", 8.0)
    settle(again, b)
    assert b.totals() == (10.0, 0.0, 2, 0)


def test_calls_of_a_gateway_that_is_silent_are_over(make: Make) -> None:
    a, b = make(silent_s=0.4), make(silent_s=0.4)
    a.arrive("p")
    a.exchange()
    b.exchange()
    assert b.row().num_calls_elsewhere == 1
    time.sleep(0.5)
    b.exchange()
    assert b.row().num_calls_elsewhere == 0
    a.exchange()
    b.exchange()
    assert b.row().num_calls_elsewhere == 1  # it was only slow


def test_nobody_counts_who_may_be_gone(make: Make) -> None:
    a, b = make(), make()
    a.arrive("p")
    settle(a, b)
    b.ledger.alone(b.now)
    assert b.row().num_active == 0
    b.exchange()
    assert b.row().num_active == 1


def test_home_is_where_the_first_of_two_has_put_it(make: Make) -> None:
    a, b = make(), make()
    a.call("p", engine_id="e0", pin=True)
    b.call("p", engine_id="e1", pin=True)
    settle(a, b)
    assert a.row().home_engine_id == b.row().home_engine_id == "e0"
    b.call("p", engine_id="e2", pin=True)  # knowing that
    settle(b, a)
    assert a.row().home_engine_id == b.row().home_engine_id == "e2"


def test_a_late_repetition_does_not_bring_an_old_home_back(make: Make) -> None:
    a, b = make(), make()
    a.call("p", engine_id="e0", pin=True)
    a.exchange(answered=False)
    b.exchange()
    b.call("p", engine_id="e1", pin=True)
    b.exchange()
    settle(a, b)
    assert a.row().home_engine_id == b.row().home_engine_id == "e1"


def test_weight_and_class_hold_everywhere(make: Make) -> None:
    a, b = make(), make()
    a.open("p", "coder")
    settle(a, b)
    b.weigh("p", 4.0)
    settle(b, a)
    assert (a.row().weight, b.row().program_class) == (4.0, "coder")
    a.weigh("p", 1.0)
    settle(a, b)
    assert b.row().weight == 1.0


def test_a_class_that_is_named_holds_before_one_that_was_worked_out(make: Make) -> None:
    a, b = make(), make()
    for name, named_first in (("p", True), ("q", False)):
        if named_first:
            a.open(name, "coder")
            settle(a, b)
            b.give_up(name)  # b's row is a new one, and its call is all that b knows
        b.table.apply(CallArrived(now=1.0, call_id=name, program_id=name, program_class="auto-1"))
        b.ledger.changed(name, 1.0)
        settle(b, a)
        if not named_first:
            assert a.row(name).program_class == "auto-1"
            a.open(name, "coder")
            settle(a, b)
        assert a.row(name).program_class == b.row(name).program_class == "coder"


def test_the_end_is_the_end_everywhere_and_a_new_life_begins_with_nothing(make: Make) -> None:
    a, b, away = make(), make(), make()
    a.call("p", 2.0)
    settle(a, b, away)
    b.end("p")
    settle(b, a)
    assert "p" not in a.table.rows
    assert "p" not in b.table.rows
    a.call("p", 1.0)
    settle(a, b)
    assert a.totals() == b.totals() == (1.0, 0.0, 1, 0)
    away.call("p", 8.0)  # of the earlier life, as far as it knows
    away.exchange()
    settle(away, b)
    assert b.totals() == away.totals() == (1.0, 0.0, 1, 0)


def test_calls_that_go_on_after_the_end_are_not_of_the_new_life(make: Make) -> None:
    a, b = make(), make()
    call_id = a.arrive("p")
    settle(a, b)
    b.end("p")
    settle(b, a)
    assert a.row().ended
    b.call("p", 1.0)
    a.finish(call_id, 4.0)
    settle(a, b)
    assert a.totals() == b.totals() == (1.0, 0.0, 1, 0)


def test_a_program_that_is_over_before_anybody_heard_of_it_costs_the_server_nothing(make: Make, server: Server) -> None:
    a = make()
    a.call("p")
    a.end("p")
    a.exchange()
    assert len(a.ledger) == 0
    with server.client as client:
        assert client.keys("agentix:1:program:*") == []


def test_a_program_given_up_as_idle_lives_on_elsewhere_and_comes_back_with_its_totals(make: Make) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    b.call("p", 4.0)
    settle(a, b)
    a.give_up("p")
    settle(a, b)
    assert "p" not in a.table.rows  # nothing has happened to it
    assert b.totals() == (6.0, 0.0, 2, 0)
    a.call("p", 1.0)  # whoever asks has forgotten it
    assert a.totals() == (7.0, 0.0, 3, 0)
    settle(a, b)
    assert b.totals() == (7.0, 0.0, 3, 0)


def test_totals_that_a_returning_program_brings_with_it_count_once(make: Make) -> None:
    a, b = make(), make()
    a.call("p", 2.0)
    b.call("p", 4.0)
    settle(a, b)
    a.give_up("p")
    b.call("p", 8.0)
    a.table.apply(CallArrived(now=1.0, call_id="x", program_id="p", attained=Attained(service_s=6.0)))
    a.ledger.changed("p", 1.0)
    settle(b, a)
    assert a.totals() == (14.0, 0.0, 3, 0)
    a.finish("x", 1.0)
    settle(a, b)
    assert a.totals() == b.totals() == (15.0, 0.0, 4, 0)


def test_the_server_forgets_what_nobody_uses_and_so_do_gateways(make: Make, server: Server) -> None:
    a = make(keep_s=0.05)
    a.call("p")
    a.call("q")
    a.exchange()
    time.sleep(0.1)
    a.call("r")
    a.exchange()
    with server.client as client:
        assert client.zrange("agentix:1:changes", 0, -1) == ["r"]
    time.sleep(0.1)
    b = make(keep_s=0.05)
    b.exchange()
    assert not b.table.rows
    with server.client as client:
        assert client.zrange("agentix:1:changes", 0, -1) == []
    for program_id in "pqr":
        a.give_up(program_id)
    for _ in range(2):
        a.ledger.tend(a.now + 1.0, 0.05)
    assert len(a.ledger) == 0


def test_a_long_call_keeps_its_program_at_the_server(make: Make) -> None:
    a = make(keep_s=30.0)
    a.arrive("p")
    a.exchange()
    for _ in range(2):
        a.ledger.tend(9.0, 30.0)
    assert a.ledger.num_untold == 0
    for _ in range(2):
        a.ledger.tend(11.0, 30.0)
    assert a.ledger.num_untold == 1


def test_a_record_that_cannot_be_read_keeps_nobody_from_the_others(make: Make, server: Server) -> None:
    a, b = make(), make()
    a.call("p")
    a.call("q")
    a.exchange()
    with server.client as client:
        client.hset("agentix:1:program:p", "a:other.1", "[-1,0,0,0,0,0]")
    b.exchange()
    assert list(b.table.rows) == ["q"]


def test_ids_of_any_sort_come_through(make: Make) -> None:
    a, b = make(), make()
    for program_id in ('tenant\x1f"quoted" \\ and /', "größe\u2028", "🙂"):
        a.call(program_id)
    a.exchange()
    b.exchange()
    assert list(b.table.rows) == list(a.table.rows)
