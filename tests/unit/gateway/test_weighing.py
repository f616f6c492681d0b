"""Programs and the queues at their homes, in virtual time: who leaves, who stays, and that nobody goes to and fro."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import ProcessTable, SchedulerConfig, make_balancer
from agentix.core.events import CallArrived, CallFinished
from agentix.core.program import ProgramRow
from agentix.gateway.admission import Admission
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.budgets import Budgets
from agentix.gateway.concurrency import EngineLoad
from agentix.gateway.config import EngineTarget
from agentix.gateway.engines import EnginePool
from agentix.gateway.metrics import GatewayMetrics
from agentix.gateway.weighing import Weighing
from observed_calls import Calls

CALL_S, PREFILL_S = 1.0, 1e-5


@dataclass
class World:
    """Engines e0, e1, … of four slots, on which every call takes a second; calls go where program affinity says.

    `num_moves`: how often each program's home has changed.
    """

    num_engines: int = 2
    slots: int | None = 4
    plugin: bool = False
    now: float = 0.0
    num_moves: dict[str, int] = field(default_factory=dict)
    num_calls: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [f"e{n}" for n in range(self.num_engines)]
        targets = tuple(EngineTarget(engine_id=name, url=f"http://{name}", plugin=self.plugin) for name in names)
        self.table, self.metrics = ProcessTable(), GatewayMetrics()
        self.pool = EnginePool(targets, httpx2.AsyncClient(trust_env=False, verify=False), 1.0)
        settings = AdmissionSettings(scheduler=SchedulerConfig(policy="fcfs"), max_concurrency=self.slots)
        self.admission = Admission(self.table, self.pool, settings, Budgets(), clock=lambda: self.now)
        self.weighing = Weighing(self.pool, self.admission, self.metrics)
        self.balancer = make_balancer("program_affinity")
        self._ends: list[tuple[float, str]] = []
        self._running: set[str] = set()

    def measured(self) -> None:
        """Every engine has finished a call with a long prompt."""
        for state in self.pool.states.values():
            state.gauge.finished(CALL_S, 1000 * PREFILL_S, 1000)

    def arrive(self, program_id: str, *, prompt_tokens: int = 4000, engine_id: str = "") -> str:
        """The program's next call comes, and goes where it is routed; or to this engine, its home from now on."""
        row = self.table.rows.get(program_id) or ProgramRow(program_id=program_id, started_s=self.now)
        number = self.num_calls[program_id] = self.num_calls.get(program_id, 0) + 1
        views = self.weighing.views(self.pool.healthy())
        route = self.balancer.route(prompt_tokens, row, views)
        first = engine_id or route.engine_ids[0]
        if not engine_id:
            self.weighing.routed(row, route, views, self.now)
        key, home = f"{program_id}/{number}", row.home_engine_id
        arrived = CallArrived(
            now=self.now, call_id=key, program_id=program_id, engine_id=first, pin=route.pin, prompt_tokens=prompt_tokens
        )
        self.admission.arrive(arrived, engine_ids=route.engine_ids)
        if home not in {None, self.table.row(program_id).home_engine_id}:
            self.num_moves[program_id] = self.num_moves.get(program_id, 0) + 1
        self._begin_sent()
        return first

    def finish_next(self) -> str:
        """The call that ends first is over; tells whose it was."""
        self.now, key = heapq.heappop(self._ends)
        self._running.discard(key)
        self.admission.over(CallFinished(now=self.now, call_id=key, service_s=CALL_S, waiting_s=0.0))
        self._begin_sent()
        self.admission.validate()
        return key.split("/")[0]

    def _begin_sent(self) -> None:
        for key, place in self.admission.places.items():
            if place.sent_s is not None and key not in self._running:
                self._running.add(key)
                heapq.heappush(self._ends, (place.sent_s + CALL_S, key))


def reasons(world: World, engine_id: str) -> dict[str, int]:
    return dict(world.metrics.engines.of(engine_id).moves)


def test_a_view_has_what_is_held_and_what_is_measured() -> None:
    world = World()
    world.measured()
    for n in range(7):
        world.arrive(f"p{n}", engine_id="e0")
    home, other = world.weighing.views(world.pool.healthy())
    assert (home.num_calls, home.num_waiting, home.call_s, home.prefill_s_per_token) == (7, 3, 1.0, 1e-5)
    assert home.queue_s == 3 * 1.0 / 4
    assert (other.num_calls, other.num_waiting, other.queue_s) == (0, 0, 0.0)


def test_an_engine_that_has_computed_nothing_yet_is_taken_to_be_like_the_others() -> None:
    world = World(num_engines=4)
    assert {v.prefill_s_per_token for v in world.weighing.views(world.pool.healthy())} == {None}
    for engine_id, call_s in (("e0", 1.0), ("e1", 2.0), ("e2", 9.0)):
        world.pool.states[engine_id].gauge.finished(call_s, call_s, 1000)
    views = world.weighing.views(world.pool.healthy())
    assert [(v.call_s, v.prefill_s_per_token) for v in views] == [(1.0, 1e-3), (2.0, 2e-3), (9.0, 9e-3), (2.0, 2e-3)]


def test_with_the_plugin_the_queue_is_in_the_engine_which_tells_it() -> None:
    world = World(slots=None, plugin=True)
    world.measured()
    for n in range(6):
        world.arrive(f"p{n}", engine_id="e0")
    assert world.weighing.num_waiting("e0") is None
    world.weighing.loaded("e0", EngineLoad(2, 4), b"")
    world.weighing.loaded("e1", EngineLoad(0, 0), b"")
    world.weighing.loaded("e7", EngineLoad(0, 0), b"")  # it has just been removed
    assert [v.num_waiting for v in world.weighing.views(world.pool.healthy())] == [4, 0]
    world.arrive("p6", engine_id="e0")
    assert world.weighing.num_waiting("e0") == 5


def test_an_engine_that_tells_nothing_and_has_no_set_limit_is_not_weighed() -> None:
    world = World(slots=None)
    assert world.weighing.num_waiting("e0") is None


def test_one_wide_program_spreads_over_both_engines_and_its_home_stays() -> None:
    """Four run at home, the fifth waits there: a quarter of a second. From then on each goes where the queue is shorter."""
    world = World()
    world.measured()
    world.arrive("wide", engine_id="e0")
    world.finish_next()
    places = [world.arrive("wide") for _ in range(16)]
    assert places == ["e0"] * 5 + ["e1"] * 5 + ["e0", "e1"] * 3
    assert world.table.row("wide").home_engine_id == "e0"
    assert reasons(world, "e0") == {"away": 8}
    assert world.weighing.moved("wide", world.now) is None


def test_a_conversation_leaves_a_home_where_others_queue_and_says_why() -> None:
    """0.04 s to compute 4,000 tokens against a queue of 3/4 s; the way back would cost as much."""
    world = World()
    world.measured()
    world.arrive("talk", engine_id="e0")
    world.finish_next()
    for n in range(7):
        world.arrive(f"p{n}", engine_id="e0")
    assert world.arrive("talk") == "e1"
    assert world.table.row("talk").home_engine_id == "e1"
    assert reasons(world, "e0") == {"queue": 1}
    why = "moved: 0.75 s wait at home, 0.00 s here; price 0.04 s"
    assert world.weighing.moved("talk", world.now + 2) == {"from": "e0", "to": "e1", "because": why, "age_s": 2.0}
    while world.table.calls:
        world.finish_next()
    assert [world.arrive("talk") for _ in range(3)] == ["e1"] * 3, "nothing draws it back"
    world.weighing.program_over(world.table.row("talk"))
    assert world.weighing.moved("talk", world.now) is None


def test_a_home_that_takes_no_calls_is_another_reason() -> None:
    world = World()
    world.arrive("talk", engine_id="e0")
    world.finish_next()
    world.pool.drain(world.pool.states["e0"])
    assert world.arrive("talk") == "e1"
    assert reasons(world, "e0") == {"gone": 1}
    moved = world.weighing.moved("talk", world.now)
    assert moved is not None
    assert moved["because"] == "e0 takes none of its calls"


@settings(max_examples=25, deadline=None)
@given(width=st.integers(10, 80), num_talks=st.integers(2, 8), at=st.integers(0, 20))
def test_nobody_goes_to_and_fro_while_a_wide_program_comes_and_goes(width: int, num_talks: int, at: int) -> None:
    """Conversations that never pause, no more than there are slots; one program asks for much at once in their midst.

    Each has at most one reason to leave: the crowd at its home. Nothing pulls it back when that is gone.
    """
    world = World()
    world.measured()
    talks = [f"talk{n}" for n in range(num_talks)]
    for talk in talks:
        world.arrive(talk)
    for step in range(30 + 2 * width):
        if step == at:
            for _ in range(width):
                world.arrive("wide")
        whose = world.finish_next()
        if whose in talks:
            world.arrive(whose)
    assert all(world.num_moves.get(program_id, 0) <= 1 for program_id in (*talks, "wide")), world.num_moves
    num_queue = sum(reasons(world, engine_id).get("queue", 0) for engine_id in world.pool.states)
    assert num_queue == sum(world.num_moves.values())


def test_calls_teach_what_they_take() -> None:
    world = World()
    calls = Calls(world.weighing, world.table)
    gauge = world.pool.states["e0"].gauge
    told = calls.arrive("p", "1", 0.0, engine_id="e0")
    calls.send(told, "e0", 1.0)
    calls.end(told, 5.0, service_s=2.0, prefill_s=0.5, prompt_tokens=1000, cached_tokens=500)
    assert (gauge.call_s, gauge.prefill_s_per_token) == (2.0, 1e-3)
    timed = calls.arrive("q", "1", 0.0, engine_id="e1")
    calls.send(timed, "e1", 10.0)
    calls.begin(timed, 10.25)
    calls.end(timed, 13.0, prompt_tokens=1000, cached_tokens=0)
    gauge = world.pool.states["e1"].gauge
    assert gauge.call_s == 3.0
    assert gauge.prefill_s_per_token == pytest.approx(0.25e-3), "by the gateway's own clock"
