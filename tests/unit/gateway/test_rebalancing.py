"""Calls that are held for one engine while another has a free turn: who goes there, who stays, and that nobody is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import make_balancer
from agentix.core.events import CallAborted, CallArrived, CallFinished, CallMoved
from agentix.core.process_table import ProcessTable
from agentix.core.program import ProgramRow
from agentix.gateway.config import EngineTarget
from agentix.gateway.fit import Needs
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.rebalancing import Rebalancing
from agentix.gateway.tenants import Budget
from agentix.gateway.weighing import Weighing
from held_calls import Gateway, tenant


class Balanced(Gateway):
    """A gateway whose balancer is asked again for calls that are held."""

    def __init__(self, num_engines: int = 1, *, balancer: str = "program_affinity", **more: Any) -> None:
        super().__init__(num_engines, **{"max_concurrency": 1, **more})
        weighing = Weighing(self.pool, self.admission, GatewayMetrics())
        self.rebalancing = Rebalancing(
            self.table, self.pool, self.admission.turns, weighing, make_balancer(balancer), clock=lambda: self.now
        )

    def join(self, engine_id: str, model: str = "m") -> None:
        state = self.pool.add(EngineTarget(engine_id=engine_id, url=f"http://{engine_id}"))
        self.pool._note_models(state, [{"id": model}], adds=False)
        self.admission.validate()

    def inside(self, engine_id: str) -> list[str]:
        """Calls that are in the engine."""
        return [p.key for p in self.admission.places.values() if p.engine_id == engine_id and p.sent_s is not None]

    def served(self, program_id: str, engine_id: str = "e0", *, prompt_tokens: int = 8000) -> None:
        """A program whose context is in an engine."""
        call_id = f"{program_id}/before"
        self.table.apply(
            CallArrived(
                now=0.0, call_id=call_id, program_id=program_id, engine_id=engine_id, prompt_tokens=prompt_tokens, pin=True
            )
        )
        self.table.apply(CallFinished(now=0.0, call_id=call_id, service_s=0.0, waiting_s=0.0))


def test_an_engine_that_joins_gets_the_first_of_those_that_wait_one_for_each_turn() -> None:
    gateway = Balanced(max_concurrency=2)
    gateway.had(a=5.0)
    for call_id in ("x1", "y1", "a1", "b1", "c1", "d1"):
        gateway.arrive(call_id, prompt_tokens=100)
    gateway.join("e1")
    assert (gateway.inside("e0"), gateway.inside("e1")) == (["x1", "y1"], ["b1", "c1"]), "a has had the most"
    assert gateway.held == ["a1", "d1"]
    place = gateway.admission.places["b1"]
    assert place.why == "was held for e0, went to a free turn: short prompt: least used"
    assert place.turn is not None
    assert place.turn.is_set()
    gateway.rebalancing.rebalance(1.0)
    assert gateway.held == ["a1", "d1"], "there is no turn left"
    gateway.admission.over(CallFinished(now=2.0, call_id="b1", service_s=1.0, waiting_s=0.0))
    gateway.rebalancing.rebalance(2.0)
    assert gateway.inside("e1") == ["c1", "d1"]


def test_an_engine_of_which_nobody_knows_what_it_takes_gets_sixteen() -> None:
    gateway = Balanced(max_concurrency=None)
    gateway.admission.turns.queue("e0").limit.limit = 1.0  # it has refused calls
    for number in range(41):
        gateway.arrive(f"{chr(ord('A') + number)}1", prompt_tokens=100)
    gateway.join("e1")
    gateway.rebalancing.rebalance(1.0)
    assert (len(gateway.inside("e0")), len(gateway.inside("e1")), len(gateway.held)) == (1, 16, 24)


def test_an_engine_that_comes_back_does_too() -> None:
    gateway = Balanced(2)
    gateway.pool.drain(gateway.pool.states["e1"])
    for call_id in ("x1", "a1", "b1"):
        gateway.arrive(call_id, prompt_tokens=100)
    gateway.pool.drain(gateway.pool.states["e1"], draining=False)
    assert (gateway.inside("e0"), gateway.inside("e1"), gateway.held) == (["x1"], ["a1"], ["b1"])


def test_a_long_context_stays_where_it_is_and_those_behind_it_go() -> None:
    gateway = Balanced()
    gateway.served("a")
    gateway.arrive("x1", prompt_tokens=100)
    gateway.arrive("a1", prompt_tokens=8000)
    gateway.arrive("b1", prompt_tokens=100)
    gateway.join("e1")
    assert (gateway.inside("e1"), gateway.held) == (["b1"], ["a1"])
    assert gateway.table.row("a").home_engine_id == "e0"


def test_a_long_prompt_that_no_engine_has_seen_is_no_reason_to_stay() -> None:
    gateway = Balanced()
    gateway.arrive("x1", prompt_tokens=100)
    gateway.arrive("a1", prompt_tokens=8000, pin=True)
    assert gateway.table.row("a").home_engine_id == "e0"
    gateway.join("e1")
    assert (gateway.inside("e1"), gateway.table.row("a").home_engine_id) == (["a1"], "e1")


@pytest.mark.parametrize(("prompt_tokens", "goes"), [(1000, True), (100_000, False)])
def test_where_costs_are_known_a_context_goes_if_the_wait_is_worth_its_price(prompt_tokens: int, goes: bool) -> None:
    """a waits for two others, of 1 s each; a prompt of 1,000 tokens takes 0.1 s, one of 100,000 takes 10 s."""
    gateway = Balanced()
    gateway.served("a", prompt_tokens=prompt_tokens)
    gateway.pool.states["e0"].gauge.finished(1.0, 0.1, 1000)
    gateway.had(b=0.0, c=0.0)
    for program_id in "bc":
        gateway.served(program_id, prompt_tokens=100_000)
    gateway.arrive("x1", prompt_tokens=100)
    gateway.arrive("a1", prompt_tokens=prompt_tokens)
    for call_id in ("b1", "c1"):
        gateway.arrive(call_id, prompt_tokens=100_000)
    gateway.join("e1")
    assert ("a1" in gateway.inside("e1")) == goes
    assert gateway.table.row("a").home_engine_id == ("e1" if goes else "e0")
    assert gateway.table.row("b").home_engine_id == "e0"


def test_a_short_side_call_does_not_take_its_programs_home_along() -> None:
    gateway = Balanced()
    gateway.served("a")
    gateway.arrive("x1", prompt_tokens=100)
    gateway.arrive("a1", prompt_tokens=100)
    gateway.join("e1")
    assert (gateway.inside("e1"), gateway.table.row("a").home_engine_id) == (["a1"], "e0")


def test_calls_that_may_not_go_there_or_may_not_go_at_all_stay() -> None:
    limited = tenant("t", program_budget=Budget(concurrent_calls=1))
    gateway = Balanced(tenants=(limited,))
    gateway.arrive("x1", tenant="t")
    gateway.arrive("x2", tenant="t")
    gateway.arrive("p1")
    gateway.admission.pause("p", 0.0)
    gateway.arrive("m1", needs=Needs(model="other"))
    gateway.arrive("r1", needs=Needs(engine_id="e0"))
    gateway.join("e1")
    assert (gateway.inside("e0"), gateway.inside("e1")) == (["x1"], [])
    gateway.arrive("y1", tenant="t")
    gateway.arrive("y2", tenant="t")
    gateway.rebalancing.rebalance(1.0)
    assert gateway.inside("e1") == ["y1"]
    gateway.admission.validate()


def test_two_calls_of_a_program_that_may_have_one_do_not_both_go() -> None:
    limited = tenant("t", program_budget=Budget(concurrent_calls=1))
    gateway = Balanced(2, tenants=(limited,), max_concurrency=2)
    gateway.pool.drain(gateway.pool.states["e1"])
    for call_id in ("x1", "z1", "a1", "a2"):
        gateway.arrive(call_id, tenant="t")
    gateway.pool.drain(gateway.pool.states["e1"], draining=False)
    place = gateway.admission.places["a2"]
    assert (gateway.inside("e1"), place.engine_id, place.sent_s) == (["a1"], "e0", None)


def test_a_balancer_that_keeps_programs_where_they_are_hashed_to_moves_those_alone_that_belong_there() -> None:
    gateway = Balanced(2, balancer="session_hash")
    hashed, engines = make_balancer("session_hash"), gateway.pool.healthy()
    belongs = {p: hashed.route(1, ProgramRow(program_id=p, started_s=0.0), engines).engine_ids[0] for p in "abcdefgh"}
    gateway.pool.drain(gateway.pool.states["e1"])
    gateway.arrive("x1")
    for program_id in belongs:
        gateway.arrive(f"{program_id}1")
    gateway.pool.drain(gateway.pool.states["e1"], draining=False)
    first = next(p for p in belongs if belongs[p] == "e1")
    assert (gateway.inside("e0"), gateway.inside("e1")) == (["x1"], [f"{first}1"])
    gateway.finish(f"{first}1", 1.0)
    for program_id in [p for p in belongs if belongs[p] == "e1" and p != first]:
        gateway.rebalancing.rebalance(1.0)
        gateway.finish(f"{program_id}1", 1.0)
    gateway.rebalancing.rebalance(1.0)
    assert gateway.held == [f"{p}1" for p in belongs if belongs[p] == "e0"], "though e1 has a free turn"


def test_a_move_says_itself_whether_the_home_goes_along() -> None:
    table = ProcessTable()
    for call_id in ("a1", "a2", "a3"):
        table.apply(CallArrived(now=0.0, call_id=call_id, program_id="a", engine_id="e0", pin=True))
    table.apply(CallMoved(now=1.0, call_id="a1", engine_id="e1", pin=False))
    assert table.row("a").home_engine_id == "e0"
    table.apply(CallMoved(now=1.0, call_id="a2", engine_id="e1"))
    assert table.row("a").home_engine_id == "e1", "it was at home"
    table.apply(CallMoved(now=1.0, call_id="a3", engine_id="e2", pin=True))
    assert table.row("a").home_engine_id == "e2", "although it was not at home"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "finish", "abort", "drain", "back", "join", "look", "pause", "resume"]),
        st.integers(0, 5),
        st.sampled_from([50, 5000]),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.sampled_from(["program_affinity", "least_used", "round_robin", "session_hash", "power_of_two"]))
def test_no_call_is_lost_and_none_is_in_two_engines(steps: list[tuple[str, int, int]], balancer: str) -> None:
    """Every call is in one queue or over, engines keep their limits, and by load alone no turn is free where one waits."""
    gateway = Balanced(2, balancer=balancer, max_concurrency=2)
    admission, pool = gateway.admission, gateway.pool
    alive: set[str] = set()
    for number, (what, which, tokens) in enumerate(steps):
        now = gateway.now = number / 10
        keys = sorted(alive)
        key = keys[which % len(keys)] if keys else ""
        sent = key in gateway.sent
        engine_id = f"e{which % 2}"
        match what:
            case "arrive":
                alive.add(
                    gateway.arrive(f"{'abcdef'[which]}{number}", now, engine_id=engine_id, prompt_tokens=tokens, pin=True)
                )
            case "finish" if sent:
                admission.over(CallFinished(now=now, call_id=key, service_s=0.1, waiting_s=0.0))
                alive.remove(key)
            case "abort" if key:
                admission.over(CallAborted(now=now, call_id=key, service_s=0.0, waiting_s=0.1))
                alive.remove(key)
            case "drain":
                pool.drain(pool.states[engine_id])
            case "back":
                pool.drain(pool.states[engine_id], draining=False)
            case "join" if f"n{which}" not in pool.states:
                gateway.join(f"n{which}")
            case "pause":
                admission.pause("abcdef"[which], now)
            case "resume":
                admission.resume("abcdef"[which], now)
            case "look":
                gateway.rebalancing.rebalance(now)
        admission.validate()
        gateway.table.validate()
        assert admission.places.keys() == alive
        standing = [key for queue in admission.turns.queues.values() for s in queue._schedulers.values() for key in s.order]
        asleep = [p.key for p in admission.places.values() if p.asleep]
        assert Counter([*standing, *asleep]) == Counter(alive), "each stands in one order, once"
        assert all(queue.num_running <= 2 for queue in admission.turns.queues.values())
    gateway.rebalancing.rebalance(gateway.now)
    if balancer == "least_used":
        free = [i for i, s in pool.states.items() if s.takes_calls and admission.turns.has_free_turn(i)]
        held = [
            p for p in admission.places.values() if p.sent_s is None and not p.asleep and pool.states[p.engine_id].takes_calls
        ]
        assert not (free and held), (free, held)
