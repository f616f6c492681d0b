"""Calls that are put back, moved, or kept where they are: who may have them, what they count for, what is forgotten."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from agentix.core import Scheduler, SchedulerConfig
from agentix.core.events import CallAborted, CallArrived
from agentix.core.process_table import ProcessTable
from agentix.core.starvation import Starvation
from agentix.gateway.config import EngineTarget
from agentix.gateway.errors import HTTPError
from agentix.gateway.fit import Needs
from agentix.gateway.place import Tier
from agentix.gateway.tenants import Budget
from held_calls import Gateway, tenant


def test_a_call_that_no_engine_took_does_not_stand_in_its_own_way() -> None:
    limited = tenant("t", program_budget=Budget(concurrent_calls=1))
    gateway = Gateway(tenants=(limited,), max_concurrency=8)
    gateway.arrive("a1", tenant="t")
    gateway.admission.put_back("a1", 1.0, retry_after_s=3.0)
    gateway.admission.validate()
    assert gateway.admission.describe("a1")["waits_for"].endswith("; the engine's rate limit is reached")
    gateway.admission.turns.tick(4.0)
    assert gateway.sent == ["a1"]


def test_a_call_that_no_engine_took_has_used_nothing() -> None:
    limited = tenant("t", budget=Budget(calls_per_minute=1, tokens_per_minute=100))
    gateway = Gateway(tenants=(limited,), max_concurrency=8)
    gateway.arrive("a1", tenant="t", prompt_tokens=100)
    gateway.admission.put_back("a1", 1.0, retry_after_s=3.0)
    gateway.admission.turns.tick(4.0)
    assert gateway.sent == ["a1"], "its one call a minute is still to be had"
    gateway.finish("a1", 5.0)
    gateway.arrive("a2", 6.0, tenant="t")
    assert gateway.held == ["a2"], "and now it is used up"


def test_what_a_call_that_was_put_back_leaves_of_a_budget_others_may_use() -> None:
    limited = tenant("t", program_budget=Budget(concurrent_calls=1))
    gateway = Gateway(2, tenants=(limited,), max_concurrency=8)
    gateway.arrive("a1", tenant="t")
    gateway.arrive("a2", tenant="t", engine_id="e1")
    assert gateway.sent == ["a1"]
    gateway.admission.put_back("a1", 1.0, retry_after_s=30.0)
    assert gateway.sent == ["a2"], "whose engine is another one"


@pytest.mark.parametrize("retry_after_s", [None, 5.0])
def test_a_call_that_is_put_back_does_not_wait_for_an_engine_that_takes_none(retry_after_s: float | None) -> None:
    gateway = Gateway(2, max_concurrency=1)
    gateway.arrive("a1")
    gateway.pool.drain(gateway.pool.states["e0"])  # what is in it stays
    gateway.admission.put_back("a1", 1.0, retry_after_s=retry_after_s)
    assert (gateway.sent, gateway.table.call("a1").engine_id) == (["a1"], "e1")
    gateway.admission.validate()


def test_calls_that_sleep_do_not_fill_the_queue_of_those_that_do_not() -> None:
    gateway = Gateway(max_concurrency=1, max_queue=2)
    gateway.admission.pause("p", 0.0)
    for n in range(2):
        gateway.admission.check_room("e0", program_id="p")
        gateway.arrive(f"p{n}")
    with pytest.raises(HTTPError, match="too many calls wait"):
        gateway.admission.check_room("e0", program_id="p")
    gateway.admission.check_room("e0")  # nothing has to be held
    for call_id in ("a1", "b1", "c1"):
        gateway.admission.check_room("e0")
        gateway.arrive(call_id)
    with pytest.raises(HTTPError, match="too many calls wait"):
        gateway.admission.check_room("e0")
    gateway.admission.validate()


def test_a_tenant_cannot_fill_the_queue() -> None:
    gateway = Gateway(max_concurrency=1, max_queue=4, max_queue_bytes=100)
    gateway.arrive("x1")
    for call_id in ("a1", "a2"):
        gateway.admission.check_room("e0", tenant="t")
        gateway.arrive(call_id, tenant="t")
    with pytest.raises(HTTPError, match="too many calls wait"):
        gateway.admission.check_room("e0", tenant="t")
    gateway.admission.check_room("e0", tenant="u", num_bytes=100)
    with pytest.raises(HTTPError, match="too many calls wait"):
        gateway.admission.check_room("e0", tenant="u", num_bytes=101)


def three_engines(**contexts: int) -> Gateway:
    """Engines e0, e1 and e2, as long as is told, that take one call each."""
    gateway = Gateway(3, max_concurrency=1)
    for engine_id, num_tokens in contexts.items():
        gateway.pool.states[engine_id].contexts = {"m": num_tokens}
    return gateway


def test_a_call_moves_only_to_an_engine_that_it_fits_into() -> None:
    gateway = three_engines(e0=1000, e1=100, e2=1000)
    gateway.arrive("x1")
    gateway.arrive("y1", engine_id="e2")
    gateway.arrive("a1", needs=Needs(model="m", num_tokens=500))
    gateway.pool.drain(gateway.pool.states["e0"])
    assert (gateway.held, gateway.table.call("a1").engine_id) == (["a1"], "e2"), "e1 is idle, but too small"
    gateway.pool.drain(gateway.pool.states["e2"])
    assert gateway.table.call("a1").engine_id == "e2", "and so it stays where it is"
    assert not gateway.admission.may_wait("a1")


def test_a_call_whose_turn_it_is_is_tried_where_it_fits() -> None:
    gateway = three_engines(e0=1000, e1=100, e2=1000)
    gateway.arrive("a1", needs=Needs(model="m", num_tokens=500))
    assert list(gateway.admission.engines_to_try("a1")) == ["e0", "e2"]
    gateway.arrive("b1", needs=Needs(model="m", engine_id="e0"))
    assert list(gateway.admission.engines_to_try("b1")) == ["e0"]


def test_a_call_that_goes_on_from_a_response_stays_with_it_as_long_as_that_is_there() -> None:
    gateway = three_engines()
    gateway.arrive("x1")
    gateway.arrive("a1", needs=Needs(engine_id="e0"))
    state = gateway.pool.states["e0"]
    gateway.pool.report_unreachable("e0", OSError())
    assert gateway.table.call("a1").engine_id == "e0"
    gateway.admission.over(CallAborted(now=1.0, call_id="x1", service_s=0.0, waiting_s=0.0))
    gateway.pool.remove(state)
    assert gateway.sent == ["a1"]
    assert gateway.table.call("a1").engine_id == "e1", "any engine may say that it is gone"
    gateway.admission.validate()


def test_an_engine_that_is_new_gets_nothing_before_its_models_are_known() -> None:
    gateway = Gateway(max_concurrency=1)
    gateway.arrive("a1", needs=Needs(model="m"))
    gateway.arrive("b1", needs=Needs(model="m"))
    gateway.pool.drain(gateway.pool.states["e0"])
    other, right = (gateway.pool.add(EngineTarget(engine_id=i, url=f"http://{i}")) for i in ("other", "right"))
    assert gateway.held == ["b1"]
    gateway.pool._note_models(other, [{"id": "another"}], adds=False)
    assert (gateway.held, gateway.table.call("b1").engine_id) == (["b1"], "e0")
    gateway.pool._note_models(right, [{"id": "m"}], adds=False)
    assert (gateway.held, gateway.table.call("b1").engine_id) == ([], "right")


def on_trial(gateway: Gateway) -> Any:
    """Its only engine has failed, and may have one call now to show that it is well; gives it."""
    state = gateway.pool.states["e0"]
    long_ago = time.monotonic() - 100.0
    assert [state.breaker.failed(long_ago, program) for program in "xyz"] == [False, False, True]
    assert (state.takes_calls, state.on_trial) == (True, True)
    return state


def test_an_engine_on_trial_gets_one_call_however_many_wait() -> None:
    gateway = Gateway(max_concurrency=8)
    state = on_trial(gateway)
    for call_id in ("a1", "b1", "c1"):
        gateway.arrive(call_id)
    gateway.admission.turns.tick(1.0)
    assert gateway.sent == ["a1"]
    assert gateway.admission.describe("b1")["waits_for"].endswith("; one call tries whether the engine is well")
    ticket = state.breaker.sent(time.monotonic())
    gateway.admission.turns.tick(2.0)
    assert gateway.sent == ["a1"]
    assert state.breaker.succeeded(time.monotonic(), ticket)
    gateway.admission.turns.tick(3.0)
    assert gateway.sent == ["a1", "b1", "c1"]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_call_that_was_to_try_an_engine_and_did_not_makes_room_for_another(leaves: bool) -> None:
    gateway = Gateway(max_concurrency=8)
    on_trial(gateway)
    for call_id in ("a1", "b1"):
        gateway.arrive(call_id)
    if leaves:
        gateway.admission.over(CallAborted(now=1.0, call_id="a1", service_s=0.0, waiting_s=0.0))
        assert gateway.sent == ["b1"]
    else:
        gateway.admission.put_back("a1", 1.0)
        assert len(gateway.sent) == 1


def test_an_engine_under_an_old_name_is_a_new_one() -> None:
    gateway = Gateway()
    old = gateway.admission.turns.queue("e0").limit
    old.refused(2, 0.0)  # it has room for one call
    gateway.arrive("a1")
    gateway.arrive("b1")
    gateway.finish("a1", 1.0)
    gateway.pool.drain(gateway.pool.states["e0"])
    gateway.arrive("c1", 2.0)
    assert "c1" in gateway.held
    gateway.pool.remove(gateway.pool.states["e0"])
    state = gateway.pool.add(EngineTarget(engine_id="e0", url="http://elsewhere", plugin=True))
    assert gateway.admission.describe_engine("e0") == {"tier": 2, "limit": 4096, "num_held": 1}
    assert gateway.admission.turns.queue("e0").tier is Tier.PLUGIN
    gateway.pool._note_models(state, [], adds=False)
    assert gateway.held == []
    gateway.admission.validate()


def test_queues_of_engines_that_are_gone_are_forgotten() -> None:
    gateway = Gateway(2, tenants=(tenant("t"), tenant("u")), max_concurrency=1)
    for n, name in enumerate("tutu"):
        gateway.arrive(f"{n}a", tenant=name)
    schedulers = [weakref.ref(s) for s in gateway.admission.turns.queue("e0")._schedulers.values()]
    assert len(schedulers) == 2
    gateway.pool.drain(gateway.pool.states["e1"])  # so that what e0 holds has nowhere to go
    gateway.finish("0a", 1.0)
    gateway.pool.remove(gateway.pool.states["e0"])
    for call_id in gateway.sent:
        gateway.finish(call_id, 2.0)
    gateway.pool.drain(gateway.pool.states["e1"], draining=False)
    assert list(gateway.admission.turns.queues) == ["e1"]
    gc.collect()
    assert [ref() for ref in schedulers] == [None, None], "and the table does not know them any more"


def test_the_end_of_a_call_is_told_to_the_queues_of_its_programs_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    tell = Starvation._totals_changed

    def note(self: Starvation, call: Any, row: Any) -> None:
        told.append(call.call_id)
        tell(self, call, row)

    monkeypatch.setattr(Starvation, "_totals_changed", note)
    table, config = ProcessTable(), SchedulerConfig(starvation_ratio=2.0)
    schedulers = [Scheduler(config, table) for _ in range(50)]
    for n, scheduler in enumerate(schedulers):
        program_id = "p" if n in {3, 7, 9} else f"other-{n}"
        scheduler.apply(CallArrived(now=0.0, call_id=f"c{n}", program_id=program_id))
    schedulers[3].apply(CallAborted(now=1.0, call_id="c3", service_s=1.0, waiting_s=0.0))
    assert told == ["c7", "c9"]
    for scheduler in schedulers:
        scheduler.validate()
    table.validate()
