"""Timelines, and what is made of them: picture and trace."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.core import SchedulerConfig
from agentix.core.balancers import make_balancer
from agentix.core.events import Batch, CallArrived, CallFinished, CallMoved, CallPreempted, CallStarted, Event, StepCompleted
from agentix.cost import UnitCost
from agentix.metrics import BatchSpan, mean_batch_size, wait_s
from agentix.sim.chrome_trace import chrome_trace
from agentix.sim.config import EngineConfig
from agentix.sim.gantt import gantt_svg, tick_step
from agentix.sim.simulation import Simulation
from agentix.sim.timeline import Timeline, lanes
from agentix.workload import Call, Program

SVG = "{http://www.w3.org/2000/svg}"

# a and b of program p, c of q, one engine: a alone, a and b, c and b after a preemption, nothing, c moved to f and served.
EVENTS: list[Event] = [
    CallArrived(now=0.0, call_id="0/a", program_id="p", engine_id="e"),
    CallStarted(now=0.0, call_id="0/a"),
    StepCompleted(now=1.0, duration_s=1.0, call_ids=("0/a",)),
    CallArrived(now=1.0, call_id="0/b", program_id="p", engine_id="e"),
    CallArrived(now=1.0, call_id="1/c", program_id="q", engine_id="e"),
    CallStarted(now=1.0, call_id="0/b"),
    StepCompleted(now=2.0, duration_s=1.0, call_ids=("0/a", "0/b")),
    StepCompleted(now=3.0, duration_s=1.0, call_ids=("0/a", "0/b")),
    CallPreempted(now=3.0, call_id="0/a"),
    CallStarted(now=3.0, call_id="1/c"),
    StepCompleted(now=5.0, duration_s=2.0, call_ids=("1/c", "0/b")),
    CallFinished(now=5.0, call_id="0/b"),
    CallPreempted(now=5.0, call_id="1/c"),
    CallMoved(now=5.0, call_id="1/c", engine_id="f"),
    StepCompleted(now=8.0, duration_s=1.0, call_ids=("0/a",)),
    CallFinished(now=8.0, call_id="0/a"),
    StepCompleted(now=10.0, duration_s=4.0, call_ids=("1/c",)),
    CallFinished(now=10.0, call_id="1/c"),
]


@pytest.fixture
def timeline() -> Timeline:
    timeline = Timeline()
    for event in EVENTS:
        timeline.record(event, [])
        timeline.record(event, [Batch(run=(), admit=(), preempt=())])  # the same line again, for the sake of its batch
    return timeline


def test_service_waiting_and_batches(timeline: Timeline) -> None:
    a, b, c = timeline.calls.values()
    assert a.served == [(0.0, 3.0), (7.0, 8.0)]
    assert a.waits() == [(3.0, 7.0)]
    assert (b.served, b.waits()) == ([(1.0, 5.0)], [])
    assert (c.served, c.waits()) == ([(3.0, 5.0), (6.0, 10.0)], [(1.0, 3.0), (5.0, 6.0)])
    assert (c.arrived_s, c.ended_s, c.engine_id) == (1.0, 10.0, "f")
    assert timeline.batches == {
        "e": [BatchSpan(0.0, 1.0, 1), BatchSpan(1.0, 5.0, 2), BatchSpan(7.0, 8.0, 1)],
        "f": [BatchSpan(6.0, 10.0, 1)],
    }
    assert timeline.end_s == 10.0


def test_an_unfinished_call_waits_until_nobody_knows_when() -> None:
    timeline = Timeline()
    timeline.record(EVENTS[0], [])
    assert timeline.calls["0/a"].waits() == []
    assert timeline.end_s == 0.0


def test_calls_that_overlap_are_in_different_lanes(timeline: Timeline) -> None:
    timeline.record(CallArrived(now=8.0, call_id="0/d", program_id="p", engine_id="e"), [])
    rows = lanes(call for call in timeline.calls.values() if call.program_id == "p")
    assert [[call.call_id for call in row] for row in rows] == [["0/a", "0/d"], ["0/b"]]


def test_trace_events(timeline: Timeline) -> None:
    trace = chrome_trace({"plas": timeline})
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {(1, 0): "plas e", (1, 1): "p", (1, 2): "p", (2, 0): "plas f", (2, 1): "q"}
    slices = [(e["pid"], e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [
        (1, 1, "0/a", 0.0, 3e6),
        (1, 1, "0/a", 7e6, 1e6),
        (1, 1, "waiting", 3e6, 4e6),
        (1, 2, "0/b", 1e6, 4e6),
        (2, 1, "1/c", 3e6, 2e6),
        (2, 1, "1/c", 6e6, 4e6),
        (2, 1, "waiting", 1e6, 2e6),
        (2, 1, "waiting", 5e6, 1e6),
    ]
    sizes = [(e["pid"], e["ts"], e["args"]["calls"]) for e in events if e["ph"] == "C"]
    assert sizes == [(1, 0.0, 1), (1, 1e6, 2), (1, 5e6, 0), (1, 7e6, 1), (1, 8e6, 0), (2, 6e6, 1), (2, 10e6, 0)]


def test_picture(timeline: Timeline) -> None:
    root = ElementTree.fromstring(gantt_svg({"fcfs": timeline, "plas": timeline}))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts.count("fcfs") == texts.count("plas") == 1
    assert texts.count("p") == texts.count("q") == 2  # a program's name stands at its first lane, in each panel
    assert {"a", "b", "c", "0", "10"} <= set(texts)
    bars: dict[str | None, ElementTree.Element] = {}
    for rect in root.iter(f"{SVG}rect"):
        tip = rect.find(f"{SVG}title")
        if tip is not None:
            bars.setdefault(tip.text, rect)
    assert len(bars) == 8  # five spans of service, three of waiting
    served, waits = bars["0/a on e, 0 to 3 s"], bars["0/a waits, 3 to 7 s"]
    assert (served.get("x"), served.get("width")) == ("130.00", "258.00")  # 860 pixels for 10 s
    assert (waits.get("x"), waits.get("width"), waits.get("fill-opacity")) == ("388.00", "344.00", "0.3")
    assert served.get("fill") == waits.get("fill") != bars["1/c on f, 6 to 10 s"].get("fill")


def test_a_picture_of_strange_names_is_still_one() -> None:
    timeline = Timeline()
    for event in (
        CallArrived(now=0.0, call_id='0/<a>"&', program_id="<b>&" * 20, engine_id="e"),
        StepCompleted(now=5.0, duration_s=5.0, call_ids=('0/<a>"&',)),
        CallFinished(now=5.0, call_id='0/<a>"&'),
    ):
        timeline.record(event, [])
    texts = [element.text for element in ElementTree.fromstring(gantt_svg({"a < b": timeline})).iter(f"{SVG}text")]
    assert {"a < b", '<a>"&', "<b>&<b>&<b>&<b>&…"} <= set(texts)


def test_a_picture_of_nothing() -> None:
    assert ElementTree.fromstring(gantt_svg({"fcfs": Timeline()})).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("at_least", "step"),
    [(1.0, 1.0), (1.1, 2.0), (2.0, 2.0), (4.0, 5.0), (7.0, 10.0), (0.03, 0.05), (99.0, 100.0), (900, 1000)],
)
def test_tick_step(at_least: float, step: float) -> None:
    assert tick_step(at_least) == pytest.approx(step)


@settings(deadline=None, max_examples=40)
@given(
    plan=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=5),
    policy=st.sampled_from(["fcfs", "mlfq", "plas", "round_robin"]),
    slots=st.integers(1, 3),
)
def test_a_timeline_agrees_with_the_records(plan: list[list[int]], policy: str, slots: int) -> None:
    """Read off the log alone, it tells the same service, waiting and mean batch size as the engines' own accounts."""
    programs = [
        Program(
            program_id=f"p{n}",
            workload="test",
            calls=tuple(
                Call(call_id=f"c{i}", parents=(f"c{i - 1}",) if i else (), prompt_tokens=3, output_tokens=steps, tool_gap_s=0.5)
                for i, steps in enumerate(chain)
            ),
        )
        for n, chain in enumerate(plan)
    ]
    timeline = Timeline()
    simulation = Simulation(
        programs,
        [0.3 * n for n in range(len(programs))],
        engine=EngineConfig(scheduler=SchedulerConfig(policy=policy, quanta_s=(1.0, 2.0)), max_num_seqs=slots),
        cost=UnitCost(),
        balancer=make_balancer("least_used"),
        num_engines=2,
        on_decision=timeline.record,
    )
    records = simulation.run()
    for index, record in enumerate(records):
        for call in record.calls:
            spans = timeline.calls[f"{index}/{call.call_id}"]
            assert sum(end_s - begin_s for begin_s, end_s in spans.served) == pytest.approx(call.service_s)
            waited_s = wait_s(call)
            assert waited_s is not None
            assert sum(end_s - begin_s for begin_s, end_s in spans.waits()) == pytest.approx(waited_s, abs=1e-6)
    spans_of_batches = [span for spans in timeline.batches.values() for span in spans]
    weighted = sum((span.end_s - span.begin_s) * span.num_calls for span in spans_of_batches)
    busy_s = sum(engine.counts.busy_s for engine in simulation.engines.values())
    assert sum(span.end_s - span.begin_s for span in spans_of_batches) == pytest.approx(busy_s)
    assert mean_batch_size(records, busy_s=busy_s) == pytest.approx(weighted / busy_s)
