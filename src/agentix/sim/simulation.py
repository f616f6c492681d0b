"""A whole run: programs arrive, their calls are routed to modelled engines, their children follow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from agentix.core.balancers import LoadBalancer, Route
from agentix.core.errors import AgentixError, ConfigError
from agentix.core.events import CallAborted, CallArrived, CallMoved, ProgramEnded, ProgramStarted
from agentix.core.process_table import ProcessTable
from agentix.cost.step import StepCostModel
from agentix.metrics import ProgramRecord
from agentix.sim.call import SimCall
from agentix.sim.config import EngineConfig
from agentix.sim.content import Contents
from agentix.sim.engine import ModelledEngine, OnDecision
from agentix.sim.events import (
    CallIsReady,
    ControlEvent,
    EngineFails,
    EngineJoins,
    PlaceIsFree,
    ProgramArrives,
    SimEvent,
    StepEnds,
    StepsBegin,
)
from agentix.sim.kernel import Kernel, Phase
from agentix.sim.memory import SwapCost
from agentix.sim.program_run import ProgramRun
from agentix.workload import Program


class NoEngine(AgentixError):
    """Calls are left and no engine is there, nor will be."""


class Simulation:
    """`programs` arrive at `arrivals_s` on `num_engines` engines of one kind, behind one balancer and one process table.

    A call reaches an engine `call_overhead_s` after it is ready. `control` is what happens to engines, and when. At most
    `max_programs` are under way at once (None: all that have arrived); the others wait, in order of arrival. The same
    arguments give the same events at the same times. Answers are as long as recorded. Raises CapacityError when a call can
    never fit an engine, NoEngine when calls are left after the last engine failed.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        arrivals_s: Sequence[float],
        *,
        engine: EngineConfig,
        cost: StepCostModel,
        balancer: LoadBalancer,
        num_engines: int = 1,
        swap_cost: SwapCost | None = None,
        call_overhead_s: float = 0.0,
        max_programs: int | None = None,
        control: Sequence[tuple[float, ControlEvent]] = (),
        on_decision: OnDecision | None = None,
    ) -> None:
        self.table = ProcessTable()
        self.engines: dict[str, ModelledEngine] = {}
        self.failed_engines: list[ModelledEngine] = []
        self._kernel: Kernel[SimEvent] = Kernel()
        self._contents = Contents()
        self._cost = cost
        self._balancer = balancer
        self._call_overhead_s = call_overhead_s
        self._on_decision = on_decision
        fails_at_s = {event.engine_id: at_s for at_s, event in control if isinstance(event, EngineFails)}
        self._new_engine: Callable[[str], ModelledEngine] = lambda engine_id: ModelledEngine(
            engine_id,
            engine,
            table=self.table,
            cost=cost,
            contents=self._contents,
            swap_cost=swap_cost,
            fails_at_s=fails_at_s.get(engine_id, math.inf),
            on_decision=on_decision,
        )
        self._num_routed: dict[str, int] = {}
        self._awake: set[str] = set()
        self._serial: dict[str, int] = {}
        self._unrouted: list[CallIsReady] = []
        self._num_places = math.inf if max_programs is None else max_programs
        self._held: deque[ProgramArrives] = deque()
        self._runs = [
            ProgramRun.plan(i, p, arrival_s) for i, (p, arrival_s) in enumerate(zip(programs, arrivals_s, strict=True))
        ]
        self._place: dict[str, CallIsReady] = {}  # of active calls: which call of which program it is
        self._keys: dict[tuple[int, str], str] = {}
        self._handlers: dict[type[SimEvent], Callable[[Any], None]] = {
            ProgramArrives: self._program_arrives,
            PlaceIsFree: self._place_is_free,
            CallIsReady: self._call_is_ready,
            StepEnds: self._step_ends,
            StepsBegin: self._steps_begin,
            EngineJoins: self._engine_joins,
            EngineFails: self._engine_fails,
        }
        for i in range(num_engines):
            self._engine_joins(EngineJoins(f"engine-{i}"))
        for index, run in enumerate(self._runs):
            self._kernel.schedule(ProgramArrives(index), at_s=run.arrival_s + call_overhead_s, phase=Phase.ARRIVE)
        for at_s, event in control:
            self._kernel.schedule(event, at_s=at_s, phase=Phase.CONTROL)

    @property
    def now(self) -> float:
        """Simulated time, s."""
        return self._kernel.now

    def run(self) -> list[ProgramRecord]:
        """Play everything; returns a record per program, in the order given."""
        self._kernel.run(lambda event: self._handlers[type(event)](event))
        if self._unrouted:
            raise NoEngine(f"{len(self._unrouted)} calls are left and the last engine has failed")
        return [run.record() for run in self._runs]

    def _program_arrives(self, event: ProgramArrives) -> None:
        if self._num_places == 0:
            self._held.append(event)
            return
        self._num_places -= 1
        run = self._runs[event.index]
        self.table.apply(
            ProgramStarted(
                now=self.now, program_id=run.program_id, total_work_s=run.work_s(self._cost), program_class=run.program.workload
            )
        )
        for call in run.program.calls:
            if not call.parents:
                self._call_is_ready(CallIsReady(event.index, call.call_id))

    def _place_is_free(self, event: PlaceIsFree) -> None:
        del event
        self._num_places += 1
        if self._held:
            self._program_arrives(self._held.popleft())

    def _call_is_ready(self, event: CallIsReady) -> None:
        run = self._runs[event.index]
        run.ready_s.setdefault(event.call_id, self.now - self._call_overhead_s)
        if self.engines:
            self._send(event)
        else:
            self._unrouted.append(event)

    def _send(self, place: CallIsReady) -> None:
        """Route a call and let it arrive. A call that is sent again after a failure gets another id."""
        run, call = self._runs[place.index], self._runs[place.index].program.call(place.call_id)
        key = f"{place.index}/{call.call_id}"
        while self._keys.get((place.index, call.call_id), "").startswith(key):
            key += "'"
        self._keys[place.index, call.call_id] = key
        sim_call = run.send(call, key, self.now, self._contents)
        engine, route = self._route(sim_call, call.prompt_tokens)
        self._place[key] = place
        arrival = CallArrived(
            now=self.now,
            call_id=key,
            program_id=run.program_id,
            engine_id=engine.engine_id,
            thread_id=run.threads[call.call_id],
            parents=tuple(self._keys[place.index, p] for p in call.parents),
            prompt_tokens=call.prompt_tokens,
            pin=route.pin,
            route=route.reason,
        )
        self._land(engine)
        engine.arrive(sim_call, arrival)
        self._wake(engine.engine_id)

    def _route(self, call: SimCall, prompt_tokens: int) -> tuple[ModelledEngine, Route]:
        knows_caches = self._balancer.uses_cached_tokens
        views = [
            e.view(
                num_routed=self._num_routed[i],
                cached_tokens=e.cached_tokens(call.prompt, self.now) if knows_caches else None,
            )
            for i, e in self.engines.items()
        ]
        route = self._balancer.route(prompt_tokens, self.table.rows.get(call.program_id), views)
        engine = self.engines[route.engine_ids[0]]
        self._num_routed[engine.engine_id] += 1
        return engine, route

    def _land(self, engine: ModelledEngine) -> None:
        """End an engine's flight with the step that runs now: something is about to change for it."""
        end_s = engine.cut(self.now)
        if end_s is None:
            return
        self._end_at(engine.engine_id, end_s)
        if end_s == self.now:  # steps end before anything else that happens at the same moment
            self._end_step(engine)

    def _end_at(self, engine_id: str, end_s: float) -> None:
        self._serial[engine_id] += 1
        self._kernel.schedule(StepEnds(engine_id, self._serial[engine_id]), at_s=end_s, phase=Phase.COMPLETE)

    def _wake(self, engine_id: str) -> None:
        if not self._awake:
            self._kernel.schedule(StepsBegin(), at_s=self.now, phase=Phase.SCHEDULE)
        self._awake.add(engine_id)

    def _steps_begin(self, event: StepsBegin) -> None:
        """In the order of the engines, whoever was woken first."""
        del event
        for engine_id, engine in self.engines.items():
            if engine_id in self._awake and engine.flight is None:
                end_s = engine.begin(self.now)
                if end_s is not None:
                    self._end_at(engine_id, end_s)
        self._awake.clear()

    def _step_ends(self, event: StepEnds) -> None:
        """All steps that end now do, in the order of the engines: in whose flight they are must not matter."""
        if event.serial != self._serial.get(event.engine_id):
            return
        for engine in self.engines.values():
            if engine.flight is not None and engine.flight.has_end_at(self.now):
                engine.cut(self.now)
                self._end_step(engine)

    def _end_step(self, engine: ModelledEngine) -> None:
        self._serial[engine.engine_id] += 1
        for sim_call in engine.end(self.now):
            self._call_is_over(sim_call)
        self._wake(engine.engine_id)

    def _call_is_over(self, sim_call: SimCall) -> None:
        place = self._place.pop(sim_call.call_id)
        run = self._runs[place.index]
        for child, ready_s in run.finish(place.call_id, self.now):
            at_s = ready_s + self._call_overhead_s
            self._kernel.schedule(CallIsReady(place.index, child.call_id), at_s=at_s, phase=Phase.ARRIVE)
        if run.is_over:
            ended = ProgramEnded(now=self.now, program_id=run.program_id)
            self.table.apply(ended)
            if self._on_decision is not None:  # it places nobody, and policies that learn do so from it
                self._on_decision(ended, [])
            if math.isfinite(self._num_places):
                self._kernel.schedule(PlaceIsFree(), at_s=self.now, phase=Phase.ARRIVE)
            for engine in self.engines.values():
                if engine.memory.keeps(run.program_id):
                    self._land(engine)
                    engine.let_go_of_program(run.program_id)
            return
        # Its program's totals changed, and with them the moment at which its calls elsewhere starve.
        for call in list(self.table.row(run.program_id).calls.values()):
            self._land(self.engines[call.engine_id])

    def _engine_joins(self, event: EngineJoins) -> None:
        if event.engine_id in self._serial:
            raise ConfigError(f"engine {event.engine_id!r} joins twice")
        self.engines[event.engine_id] = self._new_engine(event.engine_id)
        self._num_routed[event.engine_id] = self._serial[event.engine_id] = 0
        unrouted, self._unrouted = self._unrouted, []
        for place in unrouted:
            self._send(place)

    def _engine_fails(self, event: EngineFails) -> None:
        if event.engine_id not in self.engines:
            raise ConfigError(f"engine {event.engine_id!r} fails and is not there")
        for engine in self.engines.values():  # calls that fail change their programs' totals, and others get new calls
            self._land(engine)
        failed = self.engines.pop(event.engine_id)
        self.failed_engines.append(failed)
        self._serial[event.engine_id] += 1
        for call in failed.fail():
            if call.num_output or not self.engines:
                failed.forget(call, CallAborted(now=self.now, call_id=call.call_id, reason="the engine failed"))
                self._call_is_ready(self._place.pop(call.call_id))
            else:
                self._move(call, failed)

    def _move(self, call: SimCall, failed: ModelledEngine) -> None:
        engine, _ = self._route(call, call.prompt_tokens)
        moved = CallMoved(now=self.now, call_id=call.call_id, engine_id=engine.engine_id)
        failed.forget(call, moved)
        call.lose_kv(self.now)
        engine.arrive(call, moved)
        self._wake(engine.engine_id)
