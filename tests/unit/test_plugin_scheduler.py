"""The plug-in's bookkeeping beside a stand-in for vLLM: core and engine must agree after whatever the engine does."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import CallRow, ProgramRow, SchedulingPolicy
from agentix.core.events import from_record
from agentix.cost import Step
from agentix.engine.step_log import read_step_log
from fake_vllm import Request, RequestStatus, plug_in

ACTIONS = ("arrive", "arrive", "stream", "piece", "schedule", "schedule", "return", "stop", "stop", "preempt", "reset", "abort")


@pytest.fixture(scope="module")
def plugin() -> Iterator[ModuleType]:
    with plug_in() as module:
        yield module


class Engine:
    """The plug-in on a clock that the test moves, with two slots and steps in flight."""

    def __init__(self, plugin: ModuleType, **agentix: Any) -> None:
        self.now = 100.0
        plugin.time = SimpleNamespace(monotonic=lambda: self.now)  # type: ignore[attr-defined]
        self.scheduler = plugin.ProgramScheduler(2, agentix)
        self.in_flight: deque[Any] = deque()
        self.num_requests = 0

    def arrive(self, session_id: str | None = None, **fields: Any) -> str:
        self.num_requests += 1
        self.scheduler.add_request(Request(f"r{self.num_requests}", session_id, **fields))
        return f"r{self.num_requests}"

    def schedule(self) -> None:
        self.in_flight.append(self.scheduler.schedule())

    def give(self, *stopped_ids: str) -> None:
        """The output of the oldest step returns; answers end with it."""
        self.scheduler.update_from_output(self.in_flight.popleft(), stopped_ids)

    def step(self, seconds: float, *stopped_ids: str) -> None:
        self.schedule()
        self.now += seconds
        self.give(*stopped_ids)

    def act(self, action: str, pick: int) -> None:
        """One thing that engines do, to the request picked, if it is possible now."""
        scheduler = self.scheduler
        live, running = list(scheduler.requests.values()), scheduler.running
        self.now += pick % 3 / 2
        match action:
            case "arrive":
                self.arrive((None, "", "p", "q")[pick % 4])
            case "stream":
                self.arrive("p", streaming=True)
            case "schedule" if len(self.in_flight) < 2:
                self.schedule()
            case "return" if self.in_flight:
                self.give()
            case "stop" if self.in_flight:
                self.give(*(r.request_id for r in live[pick % 2 :: 2] if not self._is_lost_by_vllm(r)))
            case "preempt" if running:
                scheduler.preempt(running[pick % len(running)])
            case "reset":
                while running:
                    scheduler.preempt(running[-1])
            case "abort" if live:
                scheduler.finish_requests(live[pick % len(live)].request_id, RequestStatus.FINISHED_ABORTED)
            case "piece":
                for request in live:
                    if request.pieces is not None:
                        scheduler.add_request(request)

    @staticmethod
    def _is_lost_by_vllm(request: Request) -> bool:
        """A session whose answer ends while it waits: vLLM itself then takes it out of its queues for good."""
        return request.pieces is not None and request.status != RequestStatus.RUNNING

    def validate(self) -> None:
        """Core and engine hold the same calls, in the same states and the same order."""
        scheduler, calls = self.scheduler, self.scheduler.programs.calls
        scheduler.core.validate()
        scheduler.programs.validate()
        queued = [r.request_id for queue in (scheduler.kv_holding_waiting, scheduler.waiting) for r in queue]
        assert calls.keys() == scheduler.requests.keys()
        assert {i for i, call in calls.items() if call.running} == {r.request_id for r in scheduler.running}
        assert sorted(queued) == sorted(i for i, call in calls.items() if not call.running)
        for queue in (scheduler.kv_holding_waiting, scheduler.waiting):
            waiting = {r.request_id for r in queue}
            assert [r.request_id for r in queue] == [i for i in scheduler.core.order if i in waiting]
        assert all(r.priority == scheduler.core.level(i) for i, r in scheduler.requests.items())
        assert all(row.calls or i in {"p", "q"} for i, row in scheduler.programs.rows.items())
        assert len(scheduler._in_flight) <= len(self.in_flight)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=60))
def test_core_and_engine_agree_whatever_happens(plugin: ModuleType, actions: list[tuple[str, int]]) -> None:
    engine = Engine(plugin, quanta_s=[0.5, 1.0], starvation_ratio=2.0)
    for action, pick in actions:
        engine.act(action, pick)
        engine.validate()


def test_a_step_is_charged_from_when_it_could_start(plugin: ModuleType) -> None:
    """Two steps overlap in the queue, not on the device; an idle engine and an empty step charge nobody."""
    engine = Engine(plugin)
    engine.step(5.0)
    a = engine.arrive()
    engine.schedule()
    engine.now += 1.0
    engine.schedule()
    engine.now += 1.0
    engine.give()
    engine.now += 3.0
    engine.give()
    assert engine.scheduler.programs.call(a).service_s == 2.0 + 3.0
    engine.now += 7.0
    engine.step(1.0)
    assert engine.scheduler.programs.call(a).service_s == 6.0
    assert engine.scheduler.programs.call(a).waiting_s(engine.now) == 7.0


def test_an_aborted_call_is_charged_for_the_step_that_runs_and_not_for_one_that_waits(plugin: ModuleType) -> None:
    engine = Engine(plugin)
    a = engine.arrive("p")
    engine.schedule()
    engine.now += 1.0
    b = engine.arrive("q")
    engine.schedule()
    engine.now += 4.0
    for call_id in (a, b):
        engine.scheduler.finish_requests(call_id, RequestStatus.FINISHED_ABORTED)
    rows = engine.scheduler.programs.rows
    assert [(rows[i].service_s, rows[i].waiting_s) for i in ("p", "q")] == [(5.0, 0.0), (0.0, 4.0)]


def test_a_preempted_request_whose_last_output_was_in_flight_leaves_core_and_queue(plugin: ModuleType) -> None:
    engine = Engine(plugin)
    a, b = engine.arrive("p"), engine.arrive("p")
    engine.schedule()
    engine.scheduler.preempt(engine.scheduler.requests[a])
    engine.give(a)
    engine.validate()
    assert list(engine.scheduler.programs.calls) == [b]


def test_a_preempted_session_whose_last_output_was_in_flight_does_not_break_the_queue(plugin: ModuleType) -> None:
    """vLLM puts it into the waiting queue a second time before it takes it out."""
    engine = Engine(plugin)
    a = engine.arrive("p", streaming=True)
    engine.schedule()
    engine.scheduler.preempt(engine.scheduler.requests[a])
    engine.give(a)
    assert not engine.scheduler.waiting
    engine.arrive("p")
    engine.step(1.0)


def test_a_session_between_two_pieces_is_not_running(plugin: ModuleType) -> None:
    engine = Engine(plugin)
    a = engine.arrive("p", streaming=True)
    engine.step(1.0, a)
    assert not engine.scheduler.programs.call(a).running
    engine.scheduler.add_request(engine.scheduler.requests[a])
    engine.step(1.0)
    assert engine.scheduler.programs.call(a).running


def test_a_request_without_sampling_parameters_is_a_call_like_others(plugin: ModuleType) -> None:
    engine = Engine(plugin)
    engine.arrive("p")
    engine.arrive("p", xargs={"agentix_service_s": 6.0})
    assert engine.scheduler.programs.row("p").service_s == 6.0


@pytest.mark.parametrize("session_id", [None, ""])
def test_a_program_without_a_name_goes_with_its_call(plugin: ModuleType, session_id: str | None) -> None:
    engine = Engine(plugin)
    a = engine.arrive(session_id)
    engine.step(1.0, a)
    assert not engine.scheduler.programs.rows


def test_programs_that_fall_silent_are_forgotten(plugin: ModuleType) -> None:
    engine = Engine(plugin, program_idle_s=60.0)
    engine.step(1.0, engine.arrive("p"))
    engine.now += 61.0
    engine.arrive("q")
    assert list(engine.scheduler.programs.rows) == ["q"]


def test_the_decision_log_replays(plugin: ModuleType, tmp_path: Path) -> None:
    engine = Engine(plugin, decision_log=str(tmp_path / "log"))
    engine.step(1.0, engine.arrive("p"))
    lines = (tmp_path / "log").read_text().splitlines()
    kinds = ["CallArrived", "CallStarted", "StepCompleted", "CallFinished"]
    assert [type(from_record(json.loads(line)["event"])).__name__ for line in lines] == kinds
    engine.scheduler._log.close()


def test_the_step_log_tells_what_each_step_computed_and_for_how_long(plugin: ModuleType, tmp_path: Path) -> None:
    """Two steps in flight: the second is scheduled at 101 and starts when the first returns, at 102."""
    engine = Engine(plugin, step_log=str(tmp_path / "log"))
    prompt = engine.scheduler.requests[engine.arrive()]
    prompt.num_computed_tokens = 4  # the stand-in counts for itself: now 4 tokens after 3 in the cache, one of them scheduled
    engine.schedule()
    engine.now += 1.0
    decode = engine.scheduler.requests[engine.arrive()]
    decode.num_computed_tokens = 11
    engine.schedule()
    engine.now += 1.0
    engine.give()
    engine.now += 3.0
    engine.give()
    facts, steps = read_step_log(tmp_path / "log")
    assert (facts.device, facts.num_blocks, facts.max_num_seqs, facts.dtype) == ("an accelerator", 99, 2, "float32")
    first = Step(prefill_tokens=1, prefill_pairs=4)
    second = Step(prefill_tokens=1, prefill_pairs=4, num_decodes=1, decode_context_tokens=11)
    assert [(r.began_s, r.started_s, r.returned_s, r.num_calls, r.step) for r in steps] == [
        (100.0, 100.0, 102.0, 1, first),
        (101.0, 102.0, 105.0, 2, second),
    ]
    engine.scheduler._step_log.close()


def test_a_full_disk_ends_the_log_and_not_the_engine(plugin: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    class FullDisk:
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    engine = Engine(plugin)
    engine.scheduler._log._file = FullDisk()
    engine.step(1.0, engine.arrive("p"))
    engine.validate()
    assert caplog.text.count("No space left on device") == 1


class LastMovedFirst(SchedulingPolicy):
    """A user's policy whose ranks change with the time of day alone."""

    reranks = True

    def rank(self, call: CallRow, row: ProgramRow, now: float) -> float:
        return call.arrived_s if now < 200 else -call.arrived_s


def test_a_policy_that_ranks_afresh_is_asked_before_every_step(plugin: ModuleType) -> None:
    engine = Engine(plugin, policy=f"{__name__}:LastMovedFirst")
    calls = []
    for _ in range(5):
        engine.now += 1
        calls.append(engine.arrive())
    engine.step(1.0)
    assert [r.request_id for r in engine.scheduler.running] == calls[:2]
    engine.now = 200.0
    engine.step(1.0, *calls[:2])
    engine.schedule()
    assert [r.request_id for r in engine.scheduler.running] == [calls[4], calls[3]]
