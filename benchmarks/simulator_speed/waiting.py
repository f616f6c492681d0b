"""What an event costs when many calls wait: the core alone, and a whole modelled engine."""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any, TypeVar

from agentix.core.budget import Slots
from agentix.core.config import SchedulerConfig
from agentix.core.events import (
    Attained,
    CallArrived,
    CallFinished,
    CallStarted,
    Event,
    Placed,
    ProgramEnded,
    ProgramStarted,
    StepCompleted,
)
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.sim.call import SimCall
from agentix.sim.content import Contents, Context
from agentix.sim.engine import ModelledEngine
from benchmarks.simulator_speed.programs import cost_model, engine_config

T = TypeVar("T")

NUM_WAITING = (100, 1_000, 10_000, 100_000)
NUM_SLOTS = 64
KINDS = ("arrival", "promotion", "step", "finish", "choice", "start")
_CONFIG = SchedulerConfig(policy="plas", starvation_ratio=20.0)
# With 5 s of service a program's call waits at a level below the first, and starves 20 x 5 s after it arrived.
_ATTAINED = Attained(service_s=5.0)
_STARVES_AFTER_S = 100.0
_STEP_S = 1e-3  # so short that no quantum is used up
_PROMPT_TOKENS = 256


class Queue:
    """One engine's queue, without the engine: NUM_SLOTS calls run, `num_waiting` wait, one of which starves in each `cycle`.

    In units of an interval: call i arrives at i + 0.5 and starves at i + 0.75 + num_waiting, where the cycle of call
    i + num_waiting stands at i + 1 + num_waiting and finds it so.
    `seconds` is what each operation of each kind took.
    """

    def __init__(self, num_waiting: int) -> None:
        self.scheduler = Scheduler(_CONFIG, ProcessTable())
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.num_waiting = num_waiting
        self.num_promoted = 0
        self._interval_s = _STARVES_AFTER_S / (num_waiting + 0.25)
        self._running: deque[str] = deque()
        self._num_arrived = 0
        for i in range(NUM_SLOTS):
            self.scheduler.apply(CallArrived(now=0.0, call_id=f"first-{i}", program_id=f"first-{i}"))
            self._start(f"first-{i}", 0.0)
        for _ in range(num_waiting):
            self.scheduler.apply(self._next_arrival())

    def cycle(self) -> None:
        """A call arrives, one starves, all that run are served, the oldest of them finishes, and the starved one starts."""
        arrival = self._next_arrival()
        now = self._num_arrived * self._interval_s
        self._apply("arrival", arrival)
        # This event changes nothing itself; with it the scheduler learns that time has passed.
        placed = self._apply("promotion", ProgramStarted(now=now, program_id=arrival.program_id))
        self.num_promoted += sum(each.reason == "starving" for each in placed)
        self._apply("step", StepCompleted(now=now, duration_s=_STEP_S, call_ids=tuple(self._running)))
        over = self._running.popleft()
        self._apply("finish", CallFinished(now=now, call_id=over))
        self.scheduler.apply(ProgramEnded(now=now, program_id=over))
        batch = self._time("choice", lambda: self.scheduler.choose(now, Slots(NUM_SLOTS)))
        for call_id in batch.admit:
            self._time("start", partial(self._start, call_id, now))

    def _next_arrival(self) -> CallArrived:
        name, now = f"call-{self._num_arrived}", (self._num_arrived + 0.5) * self._interval_s
        self._num_arrived += 1
        return CallArrived(now=now, call_id=name, program_id=name, attained=_ATTAINED)

    def _start(self, call_id: str, now: float) -> None:
        self.scheduler.apply(CallStarted(now=now, call_id=call_id))
        self._running.append(call_id)

    def _apply(self, kind: str, event: Event) -> list[Placed]:
        return self._time(kind, lambda: self.scheduler.apply(event))

    def _time(self, kind: str, do: Callable[[], T]) -> T:
        began_ns = time.perf_counter_ns()
        outcome = do()
        self.seconds[kind].append((time.perf_counter_ns() - began_ns) * 1e-9)
        return outcome


def core_row(num_waiting: int, *, num_cycles: int) -> dict[str, Any]:
    """The median time of each kind of event, and the mean CPU time of a cycle with all that is done only now and then."""
    queue = Queue(num_waiting)
    gc.collect()
    began_s = time.process_time()
    for _ in range(num_cycles):
        queue.cycle()
    cycle_s = (time.process_time() - began_s) / num_cycles
    return {
        "num_waiting": num_waiting,
        "num_promoted": queue.num_promoted,
        "num_cycles": num_cycles,
        "median_s": {kind: median(queue.seconds[kind]) for kind in KINDS},
        "cycle_s": cycle_s,
    }


def engine_row(num_waiting: int, *, num_calls: int) -> dict[str, Any]:
    """A modelled engine with full slots and a queue that is kept at one length, until `num_calls` calls are over."""
    table, contents = ProcessTable(), Contents()
    engine = ModelledEngine("engine-0", engine_config("plas"), table=table, cost=cost_model(), contents=contents)
    num_arrived, num_over, now = 0, 0, 0.0

    def arrive() -> None:
        nonlocal num_arrived
        name = f"call-{num_arrived}"
        prompt = contents.extend(Context(), name, _PROMPT_TOKENS)
        num_output = 32 + 37 * num_arrived % 64
        call = SimCall(
            call_id=name, program_id=name, prompt=prompt, answer="answer", num_output_wanted=num_output, waiting_since_s=now
        )
        num_arrived += 1
        event = CallArrived(now=now, call_id=name, program_id=name, prompt_tokens=_PROMPT_TOKENS, attained=_ATTAINED)
        engine.arrive(call, event)

    for _ in range(num_waiting + NUM_SLOTS):
        arrive()
    gc.collect()
    began_s = time.process_time()
    while num_over < num_calls:
        end_s = engine.begin(now)
        now = now if end_s is None else end_s
        for call in engine.end(now):
            table.apply(ProgramEnded(now=now, program_id=call.program_id))
            num_over += 1
            arrive()
    cpu_s = time.process_time() - began_s
    return {
        "num_waiting": num_waiting,
        "num_calls": num_over,
        "num_steps": engine.counts.num_steps,
        "call_s": cpu_s / num_over,
        "step_s": cpu_s / engine.counts.num_steps,
    }


def waiting(num_repeats: int, scale: float) -> dict[str, Any]:
    """Both, for every length of queue; of several repeats the smallest figure of each kind."""
    lengths = [n for n in NUM_WAITING if n <= max(1000, NUM_WAITING[-1] * scale)]
    num_events = max(100, round(2000 * min(1.0, scale)))
    core = [_best([core_row(n, num_cycles=num_events) for _ in range(num_repeats)]) for n in lengths]
    engine = [_best([engine_row(n, num_calls=num_events) for _ in range(num_repeats)]) for n in lengths]
    costs = {kind: [(n, row["median_s"][kind]) for n, row in zip(lengths, core, strict=True)] for kind in KINDS}
    costs["cycle"] = [(n, row["cycle_s"]) for n, row in zip(lengths, core, strict=True)]
    costs["engine"] = [(n, row["call_s"]) for n, row in zip(lengths, engine, strict=True)]
    return {"core": core, "engine": engine, "exponents": {kind: fit_exponent(points) for kind, points in costs.items()}}


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Field by field the smallest: counts are the same in every row, and of times the least disturbed counts."""
    return {
        key: _best([row[key] for row in rows]) if isinstance(value, dict) else min(row[key] for row in rows)
        for key, value in rows[0].items()
    }


def fit_exponent(points: Sequence[tuple[float, float]]) -> float:
    """The e of cost = c x n^e that fits (n, cost) best: least squares of the logarithms. At least two different n."""
    xs, ys = [math.log(n) for n, _ in points], [math.log(cost) for _, cost in points]
    mean_x, mean_y = fmean(xs), fmean(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)
