"""Which call goes when: the gateway's queue without a network, by hand and by chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import ConfigError, ProcessTable, Scheduler, SchedulerConfig
from agentix.core.events import CallAborted, CallFinished, ProgramStarted, from_record
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.concurrency import EngineLoad
from agentix.gateway.errors import HTTPError
from agentix.gateway.tenants import Budget
from held_calls import SCHEDULER, Gateway, tenant


def test_calls_are_held_up_to_the_limit_and_go_in_program_order() -> None:
    gateway = Gateway(max_concurrency=1)
    gateway.had(a=5.0, b=1.5, c=0.0)
    for call_id in ("x1", "a1", "b1", "c1", "c2"):
        gateway.arrive(call_id)
    assert (gateway.sent, gateway.held) == (["x1"], ["a1", "b1", "c1", "c2"])
    admission = gateway.admission
    assert [admission.describe(c)["position"] for c in ("a1", "b1", "c1", "c2")] == [4, 3, 1, 2]
    assert [admission.describe(c)["level"] for c in ("a1", "b1", "c1", "c2")] == [2, 1, 0, 0]
    assert admission.describe("a1")["waits_for"] == "held: level 2, position 4 of e0; limit 1 in use"
    order = []
    for moment in (1.0, 2.0, 3.0, 4.0):
        gateway.finish(gateway.sent[0], moment)
        order += gateway.sent
    assert order == ["c1", "c2", "b1", "a1"], "least attained service first, not first come"
    assert admission.times("a1", 5.5) == (4.0, 1.5)


def test_where_nothing_is_held_a_call_is_sent_as_it_arrives() -> None:
    gateway = Gateway(plugin=True)
    for n in range(100):
        gateway.arrive(f"a{n}", float(n))
    assert len(gateway.sent) == 100
    assert gateway.admission.times("a7", 8.0) == (0.0, 1.0)
    assert gateway.admission.describe_engine("e0") == {"tier": 2, "limit": 4096, "num_held": 0}


def test_a_call_in_its_engine_sinks_with_what_it_takes_and_nobody_takes_it_out() -> None:
    gateway = Gateway(max_concurrency=1)
    gateway.arrive("a1", 0.2)
    gateway.arrive("b1", 0.3)
    gateway.admission.turns.tick(0.6)  # a came after the last charge, at 0
    assert gateway.admission.describe("a1")["level"] == 0
    gateway.admission.turns.tick(1.7)  # 1.1 s: one quantum
    assert gateway.admission.describe("a1")["level"] == 1
    assert gateway.table.call("a1").service_s == pytest.approx(1.1)
    assert gateway.sent == ["a1"]
    gateway.admission.put_back("a1", 2.0, retry_after_s=0.0)
    gateway.admission.validate()
    assert [gateway.admission.describe(c)["position"] for c in ("a1", "b1")] == [2, 1], "it stands at the level it has sunk to"


def test_calls_of_which_most_wait_in_the_engine_are_charged_as_if_they_took_turns() -> None:
    gateway = Gateway(plugin=True)
    for name in "abcdefgh":
        gateway.arrive(f"{name}1")
    gateway.pool.states["e0"].gauge.loaded(EngineLoad(num_running=2, num_waiting=6), num_sent=8)
    gateway.admission.turns.tick(0.6)
    gateway.admission.turns.tick(4.6)
    assert [gateway.table.call(f"{name}1").service_s for name in "abcdefgh"] == pytest.approx([1.15] * 8)


def test_a_call_that_the_engine_refuses_waits_at_its_old_place() -> None:
    gateway = Gateway(max_concurrency=2)
    for call_id in ("a1", "b1", "c1"):
        gateway.arrive(call_id)
    gateway.admission.put_back("a1", 1.0, retry_after_s=3.0)
    assert gateway.held == ["a1", "c1"]
    assert gateway.admission.describe("a1")["position"] == 1
    gateway.admission.turns.tick(3.9)
    assert gateway.held == ["a1", "c1"], "the engine wants none before 4 s"
    assert gateway.admission.describe("a1")["waits_for"].endswith("; the engine's rate limit is reached")
    gateway.admission.turns.tick(4.0)
    assert gateway.held == ["a1", "c1"], "and fewer at a time"
    gateway.finish("b1", 5.0)
    assert gateway.held == [], "one more after each that ends well"


def test_a_paused_programs_calls_are_held_and_go_on_from_their_place() -> None:
    gateway = Gateway(max_concurrency=2)
    for call_id in ("a1", "x1", "a2", "b1"):
        gateway.arrive(call_id)
    gateway.admission.pause("a", 1.0)
    gateway.arrive("a3", 1.5)
    assert gateway.admission.describe("a2")["waits_for"] == "paused"
    assert gateway.admission.describe("a2")["position"] is None
    gateway.finish("a1", 2.0)
    gateway.finish("x1", 2.0)
    assert (gateway.sent, gateway.held) == (["b1"], ["a2", "a3"]), "a1 went on; b passes by"
    gateway.admission.resume("a", 3.0)
    assert gateway.sent == ["a2", "b1"]
    gateway.admission.validate()
    gateway.admission.pause("a", 4.0)
    gateway.admission.over(CallAborted(now=5.0, call_id="a3", service_s=0.0, waiting_s=3.5))
    gateway.admission.validate()
    gateway.admission.program_over(gateway.table.row("a"))
    assert not gateway.admission.paused


def test_a_weight_moves_calls_that_are_held() -> None:
    gateway = Gateway(max_concurrency=1)
    gateway.had(a=3.0, b=1.5)
    for call_id in ("x1", "a1", "b1"):
        gateway.arrive(call_id)
    assert [gateway.admission.describe(c)["position"] for c in ("a1", "b1")] == [2, 1]
    gateway.admission.weigh("a", 4.0, 1.0)  # 3 s count 0.75
    assert [gateway.admission.describe(c)["position"] for c in ("a1", "b1")] == [1, 2]
    assert gateway.admission.describe("a1")["level"] == 0
    gateway.admission.validate()


def test_tenants_take_turns_however_many_programs_they_have() -> None:
    heavy, light = tenant("heavy"), tenant("light")
    gateway = Gateway(tenants=(heavy, light), max_concurrency=2)
    for n in range(8):
        gateway.arrive(f"{n}h", 0.0, tenant="heavy")
    gateway.arrive("al", 1.0, tenant="light")
    gateway.arrive("bl", 1.0, tenant="light")
    assert gateway.sent == ["0h", "1h"]
    gateway.finish("0h", 2.0)
    assert gateway.sent == ["1h", "al"], "heavy has had 4 s by now; light began at what heavy had at 1 s"
    gateway.finish("1h", 2.0)
    assert gateway.sent == ["al", "bl"], "still the least"


def test_a_program_over_budget_sleeps_and_others_pass_by() -> None:
    limited = tenant("t", program_budget=Budget(concurrent_calls=1))
    gateway = Gateway(tenants=(limited,), max_concurrency=8)
    for call_id in ("a1", "a2", "b1"):
        gateway.arrive(call_id, tenant="t")
    assert gateway.sent == ["a1", "b1"]
    assert gateway.admission.describe("a2")["waits_for"] == "its program is over budget until one of its calls is over"
    gateway.finish("a1", 1.0)
    assert gateway.sent == ["a2", "b1"]


def test_a_tenant_over_budget_waits_and_others_pass_by() -> None:
    tenants = tenant("t", budget=Budget(concurrent_calls=1)), tenant("u")
    gateway = Gateway(2, tenants=tenants, max_concurrency=8)
    gateway.arrive("a1", tenant="t", engine_id="e1")
    for call_id in ("a2", "b1"):
        gateway.arrive(call_id, tenant="t")
    gateway.arrive("c1", tenant="u")
    assert gateway.sent == ["a1", "c1"]
    gateway.finish("a1", 1.0)
    assert gateway.sent == ["a2", "c1"], "the end of a call at one engine lets one go at another"
    assert gateway.admission.describe("b1")["waits_for"] == "held: level 0, position 1 of e0; its tenant is over budget"


def test_calls_of_an_engine_that_takes_none_move_to_one_that_does() -> None:
    gateway = Gateway(2, max_concurrency=1)
    for call_id in ("a1", "b1", "c1"):
        gateway.arrive(call_id)
    gateway.admission.pause("c", 0.5)
    gateway.pool.drain(gateway.pool.states["e0"])
    assert gateway.sent == ["a1", "b1"], "b has gone to the other, where there was room"
    assert [gateway.table.call(c).engine_id for c in ("a1", "b1", "c1")] == ["e0", "e1", "e1"]
    gateway.admission.resume("c", 1.0)
    gateway.finish("b1", 2.0)
    assert gateway.sent == ["a1", "c1"]
    gateway.admission.goes_to("a1", "e1", 3.0)  # its engine has died: it does not queue again
    gateway.admission.validate()
    assert (gateway.sent, gateway.table.call("a1").engine_id) == (["a1", "c1"], "e1")


def test_calls_stay_where_no_engine_takes_any_and_go_when_one_is_back() -> None:
    gateway = Gateway(max_concurrency=1)
    gateway.arrive("a1")
    gateway.arrive("b1")
    gateway.pool.drain(gateway.pool.states["e0"])
    gateway.finish("a1", 1.0)
    assert gateway.held == ["b1"]
    assert gateway.admission.describe("b1")["waits_for"].endswith("; the engine takes no calls")
    gateway.pool.drain(gateway.pool.states["e0"], draining=False)
    assert gateway.sent == ["b1"]


def test_so_many_are_held_and_no_more() -> None:
    gateway = Gateway(2, max_concurrency=1, max_queue=2)
    for call_id in ("a1", "b1", "c1"):
        gateway.admission.check_room("e0")
        gateway.arrive(call_id)
    with pytest.raises(HTTPError, match="too many calls wait") as caught:
        gateway.admission.check_room("e0")
    assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (503, "queue_full", 2)
    gateway.admission.check_room("e1")  # which has room: nothing would be held there


def test_when_to_try_again_follows_from_the_queue() -> None:
    gateway = Gateway(max_concurrency=1)
    for n in range(8):
        gateway.arrive(f"{n}a")
    for n in range(3):
        gateway.finish(gateway.sent[0], 4.0 * (n + 1))  # one each 4 s
    last = gateway.admission.places["7a"]
    assert gateway.admission.retry_after_s(last) == 4 * 4, "it is the fourth of those that wait"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tier": "3"}, "tier must be one of auto, 0, 1, 2, not '3'"),
        ({"max_concurrency": 0}, "max_concurrency must be at least 1, not 0"),
        ({"max_queue": -1}, "max_queue must be 0 or more"),
        ({"max_queue_bytes": -1}, "max_queue_bytes must be 0 or more, not -1"),
        ({"max_hold_s": 0.0}, "max_hold_s must be a positive number"),
        ({"heartbeat_s": math.inf}, "heartbeat_s must be a positive number"),
        ({"scheduler": SchedulerConfig(policy="srpt")}, "knowledge of the future"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AdmissionSettings(**settings)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "finish", "abort", "put_back", "pause", "resume", "weigh", "tick", "drain", "back"]),
        st.integers(0, 5),
        st.floats(0.0, 1.5),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from(["plas", "fcfs", "mlfq", "atlas_exact", "las"]), st.integers(1, 3))
def test_whatever_happens_counts_hold_and_the_log_replays(
    steps: list[tuple[str, int, float]], policy: str, max_concurrency: int
) -> None:
    """No limit is exceeded, no engine stands idle before calls that may go, and the core decides the same from the log."""
    config = replace(SCHEDULER, policy=policy, starvation_ratio=2.0)
    gateway = Gateway(2, scheduler=config, max_concurrency=max_concurrency)
    admission, pool, now = gateway.admission, gateway.pool, 1.0
    for number, (what, which, gap_s) in enumerate(steps):
        now = gateway.now = now + gap_s
        keys, program_id = list(admission.places), "abcdef"[which]
        key = keys[which % len(keys)] if keys else ""
        sent = key in gateway.sent
        match what:
            case "arrive":
                gateway.arrive(f"{program_id}{number}", now, engine_id=f"e{which % 2}", tenant="tu"[which % 2])
            case "finish" if sent:
                admission.over(CallFinished(now=now, call_id=key, service_s=gap_s, waiting_s=0.0))
            case "abort" if key:
                admission.over(CallAborted(now=now, call_id=key, service_s=0.0, waiting_s=gap_s))
            case "put_back" if sent:
                admission.put_back(key, now)
            case "pause":
                admission.pause(program_id, now)
            case "resume":
                admission.resume(program_id, now)
            case "weigh" if program_id in gateway.table.rows:
                admission.weigh(program_id, 0.5 + gap_s, now)
            case "tick":
                admission.turns.tick(now)
            case "drain":
                pool.drain(pool.states[f"e{which % 2}"])
            case "back":
                pool.drain(pool.states[f"e{which % 2}"], draining=False)
        admission.validate()
        gateway.table.validate()
    admission.turns.tick(now)
    for engine_id, queue in admission.turns.queues.items():
        assert queue.num_running <= max_concurrency
        may_go = [p for p in admission.places.values() if p.engine_id == engine_id and p.sent_s is None and not p.asleep]
        if pool.states[engine_id].takes_calls:
            assert queue.num_running == max_concurrency or not may_go
    replay(gateway.log, config)


def replay(log: list[tuple[str | None, str]], config: SchedulerConfig) -> None:
    """Give the events to schedulers of the core alone, and compare what they decide."""
    table = ProcessTable()
    queues: dict[str, Scheduler] = {}
    for queue, line in log:
        said = json.loads(line)
        event, decisions = from_record(said["event"]), [from_record(d) for d in said["decisions"]]
        if queue is None:
            table.apply(event)
            continue
        if queue not in queues:
            queues[queue] = Scheduler(config, table, keeps_running=True)
        assert queues[queue].apply(event) == decisions, line


def test_a_row_of_a_session_is_none_of_the_admissions_business() -> None:
    gateway = Gateway()
    gateway.table.apply(ProgramStarted(now=0.0, program_id="p"))
    gateway.admission.pause("p", 1.0)
    gateway.arrive("p1", 2.0)
    assert gateway.held == ["p1"]


def test_calls_that_a_budget_puts_to_sleep_need_room_too() -> None:
    """The engine has turns for all of them, their programs have not: three of five may sleep, a tenant leaves what it takes."""
    budget = Budget(concurrent_calls=1, max_hold_s=60.0)
    gateway = Gateway(tenants=(tenant("t", program_budget=budget),), max_queue=5, max_queue_bytes=1000)
    refused = []
    for call_id in (f"{program_id}{n}" for program_id in "abcdefgh" for n in (1, 2)):
        try:
            gateway.admission.check_room("e0", program_id=call_id[0], tenant="t", num_bytes=10)
        except HTTPError:
            refused.append(call_id)
        else:
            gateway.arrive(call_id, tenant="t", num_bytes=10)
    assert gateway.held == ["a2", "b2", "c2"]
    assert refused == ["d2", "e2", "f2", "g2", "h2"]
