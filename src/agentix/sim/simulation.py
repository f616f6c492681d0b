"""A whole run: programs arrive, their calls are routed to modelled engines, their children follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentix.core.balancers import EngineView, LoadBalancer
from agentix.core.events import CallArrived, ProgramEnded, ProgramStarted
from agentix.core.process_table import ProcessTable
from agentix.cost.step import Step, StepCostModel, causal_pairs
from agentix.metrics import CallRecord, ProgramRecord, Status
from agentix.sim.call import SimCall
from agentix.sim.content import Contents, Context
from agentix.sim.engine import EngineConfig, ModelledEngine, OnDecision
from agentix.sim.kernel import Kernel, Phase
from agentix.workload import Call, Program, thread_ids
from agentix.workload.parts import CallParts, program_parts


@dataclass(frozen=True, slots=True)
class ProgramArrives:
    """Event: a program is due."""

    index: int


@dataclass(frozen=True, slots=True)
class CallIsReady:
    """Event: all parents of a call are over and their gaps have passed."""

    index: int
    call_id: str


@dataclass(frozen=True, slots=True)
class StepEnds:
    """Event: an engine's step is over."""

    engine_id: str


@dataclass(frozen=True, slots=True)
class StepBegins:
    """Event: an engine looks for work."""

    engine_id: str


SimEvent = ProgramArrives | CallIsReady | StepEnds | StepBegins


@dataclass(slots=True)
class _Run:
    """A program under way."""

    program: Program
    arrival_s: float
    threads: dict[str, str]
    children: dict[str, list[Call]]
    parts: dict[str, CallParts]
    ready_s: dict[str, float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    done: dict[str, SimCall] = field(default_factory=dict)


def _start(program: Program, arrival_s: float) -> _Run:
    children: dict[str, list[Call]] = {}
    for call in program.calls:
        for parent in dict.fromkeys(call.parents):
            children.setdefault(parent, []).append(call)
    return _Run(program, arrival_s, thread_ids(program), children, program_parts(program))


class Simulation:
    """`programs` arrive at `arrivals_s` on `engines` engines of one kind, behind one balancer and one process table.

    Deterministic: the same arguments give the same events at the same times. Answers are as long as recorded. Raises
    CapacityError when a call can never fit an engine.
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
        on_decision: OnDecision | None = None,
    ) -> None:
        self.table = ProcessTable()
        self._kernel: Kernel[SimEvent] = Kernel()
        self._contents = Contents()
        self._cost = cost
        self._balancer = balancer
        self.engines = {
            f"engine-{i}": ModelledEngine(
                f"engine-{i}", engine, table=self.table, cost=cost, contents=self._contents, on_decision=on_decision
            )
            for i in range(num_engines)
        }
        self._num_routed = dict.fromkeys(self.engines, 0)
        self._is_busy = dict.fromkeys(self.engines, False)
        self._runs = [_start(program, arrival_s) for program, arrival_s in zip(programs, arrivals_s, strict=True)]
        self._place: dict[str, tuple[int, str]] = {}
        self._handlers: dict[type[SimEvent], Callable[[Any], None]] = {
            ProgramArrives: self._program_arrives,
            CallIsReady: self._call_is_ready,
            StepEnds: self._step_ends,
            StepBegins: self._step_begins,
        }
        for index, run in enumerate(self._runs):
            self._kernel.schedule(ProgramArrives(index), at_s=run.arrival_s, phase=Phase.ARRIVE)

    @property
    def now(self) -> float:
        """Simulated time, s."""
        return self._kernel.now

    def run(self) -> list[ProgramRecord]:
        """Play everything; returns a record per program, in the order given."""
        self._kernel.run(lambda event: self._handlers[type(event)](event))
        return [self._record(index, run) for index, run in enumerate(self._runs)]

    def _program_arrives(self, event: ProgramArrives) -> None:
        run = self._runs[event.index]
        program_id = self._program_id(event.index)
        work_s = sum(self._work_s(call) for call in run.program.calls)
        self.table.apply(ProgramStarted(now=self.now, program_id=program_id, total_work_s=work_s))
        for call in run.program.calls:
            if not call.parents:
                self._call_is_ready(CallIsReady(event.index, call.call_id))

    def _call_is_ready(self, event: CallIsReady) -> None:
        run = self._runs[event.index]
        call = run.program.call(event.call_id)
        program_id, key = self._program_id(event.index), f"{event.index}/{event.call_id}"
        run.ready_s[call.call_id] = self.now
        views = [
            EngineView(engine_id=i, num_calls=len(e.calls), num_routed=self._num_routed[i]) for i, e in self.engines.items()
        ]
        route = self._balancer.route(call.prompt_tokens, self.table.rows.get(program_id), views)
        engine = self.engines[route.engine_ids[0]]
        self._num_routed[engine.engine_id] += 1
        self._place[key] = (event.index, call.call_id)
        prompt = Context()
        for name, num_tokens in run.parts[call.call_id].prompt:
            prompt = self._contents.extend(prompt, name, num_tokens)
        sim_call = SimCall(
            call_id=key,
            program_id=program_id,
            prompt=prompt,
            answer=run.parts[call.call_id].answer[0],
            num_output_wanted=call.max_tokens,
        )
        arrival = CallArrived(
            now=self.now,
            call_id=key,
            program_id=program_id,
            engine_id=engine.engine_id,
            thread_id=run.threads[call.call_id],
            parents=tuple(f"{event.index}/{p}" for p in call.parents),
            prompt_tokens=call.prompt_tokens,
            pin=route.pin,
        )
        engine.arrive(sim_call, arrival)
        self._wake(engine.engine_id)

    def _wake(self, engine_id: str) -> None:
        if not self._is_busy[engine_id]:
            self._is_busy[engine_id] = True
            self._kernel.schedule(StepBegins(engine_id), at_s=self.now, phase=Phase.SCHEDULE)

    def _step_begins(self, event: StepBegins) -> None:
        duration_s = self.engines[event.engine_id].begin_step(self.now)
        if duration_s is None:
            self._is_busy[event.engine_id] = False
        else:
            self._kernel.schedule(StepEnds(event.engine_id), at_s=self.now + duration_s, phase=Phase.COMPLETE)

    def _step_ends(self, event: StepEnds) -> None:
        for sim_call in self.engines[event.engine_id].end_step(self.now):
            self._call_is_over(sim_call)
        self._kernel.schedule(StepBegins(event.engine_id), at_s=self.now, phase=Phase.SCHEDULE)

    def _call_is_over(self, sim_call: SimCall) -> None:
        index, call_id = self._place.pop(sim_call.call_id)
        run = self._runs[index]
        run.ended_s[call_id] = self.now
        run.done[call_id] = sim_call
        for child in run.children.get(call_id, []):
            if all(p in run.ended_s for p in child.parents):
                ready_s = max(run.ended_s[p] + (run.program.call(p).tool_gap_s or 0.0) for p in child.parents)
                self._kernel.schedule(CallIsReady(index, child.call_id), at_s=max(ready_s, self.now), phase=Phase.ARRIVE)
        if len(run.done) == len(run.program.calls):
            self.table.apply(ProgramEnded(now=self.now, program_id=self._program_id(index)))

    def _work_s(self, call: Call) -> float:
        """Service the call needs alone on an engine whose prefix cache holds nothing: what SRPT is told."""
        n = call.prompt_tokens
        prefill = Step(prefill_tokens=n, prefill_pairs=causal_pairs(n))
        decode = Step(num_decodes=1, decode_context_tokens=n + call.output_tokens // 2)
        return self._cost.step_s(prefill) + max(0, call.output_tokens - 1) * self._cost.step_s(decode)

    def _program_id(self, index: int) -> str:
        return f"{index}:{self._runs[index].program.program_id}"

    def _record(self, index: int, run: _Run) -> ProgramRecord:
        return ProgramRecord(
            program_id=self._program_id(index),
            trace_program_id=run.program.program_id,
            workload=run.program.workload,
            arrival_s=run.arrival_s,
            calls=tuple(self._call_record(index, run, call) for call in run.program.calls),
        )

    def _call_record(self, index: int, run: _Run, call: Call) -> CallRecord:
        done = run.done.get(call.call_id)
        ready_s = run.ready_s.get(call.call_id)
        return CallRecord(
            program_id=self._program_id(index),
            call_id=call.call_id,
            thread_id=run.threads[call.call_id],
            parents=call.parents,
            status=Status.OK if done is not None else Status.NOT_RUN,
            max_tokens=call.max_tokens,
            trace_prompt_tokens=call.prompt_tokens,
            ready_s=ready_s,
            sent_s=ready_s,
            first_token_s=done.first_token_s if done is not None else None,
            last_token_s=run.ended_s.get(call.call_id),
            end_s=run.ended_s.get(call.call_id),
            prompt_tokens=done.prompt.num_tokens if done is not None else None,
            cached_tokens=done.cached_tokens if done is not None else None,
            output_tokens=done.num_output if done is not None else None,
        )
