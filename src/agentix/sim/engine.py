"""A modelled engine: continuous batching, chunked prefill, KV blocks and preemption, one iteration at a time.

It decides nothing about order: that is `agentix.core.Scheduler`, unchanged. `batch.py` carries the choices out; this file
plays the steps in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from agentix.core.balancers import EngineView
from agentix.core.capacity import EngineCapacity
from agentix.core.events import Batch, CallFinished, CallPreempted, CallStarted, Event, Placed, StepCompleted
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.cost.step import Step, StepCostModel, causal_pairs
from agentix.sim.batch import RunningBatch
from agentix.sim.call import SimCall
from agentix.sim.config import CapacityError, EngineConfig, EngineCounts
from agentix.sim.content import Contents, Context
from agentix.sim.flight import Flight, Work, following_step
from agentix.sim.memory import Memory, SwapCost

OnDecision = Callable[[Event, list[Placed] | list[Batch]], None]

_RECENT = 0.05  # weight of the call that ended last in the mean that balancers are told


class ModelledEngine:
    """One engine. A shell calls `arrive`, `begin` and, at the time it returned, `end`; it owns the clock.

    Between `begin` and `end` steps are in the air: calls may arrive, nothing else changes. Before a call arrives the shell
    cuts the flight short (`cut`), so that the newcomer finds the engine as it would be if steps were played one by one.
    The step in the air when the engine fails must be in a flight of its own, since it is lost: hence `fails_at_s`.
    `on_decision` is told every event with the core's decisions on it: a decision log.
    """

    def __init__(
        self,
        engine_id: str,
        config: EngineConfig,
        *,
        table: ProcessTable,
        cost: StepCostModel,
        contents: Contents,
        swap_cost: SwapCost | None = None,
        fails_at_s: float = math.inf,
        on_decision: OnDecision | None = None,
    ) -> None:
        self.engine_id = engine_id
        self.config = config
        num_tokens = config.max_batch_tokens
        prefill_s = cost.step_s(Step(prefill_tokens=num_tokens, prefill_pairs=causal_pairs(num_tokens)))
        self._prefill_s_per_token = prefill_s / num_tokens
        self._capacity = EngineCapacity(
            kv_tokens=config.kv_tokens, num_slots=config.max_num_seqs, prefill_s_per_token=self._prefill_s_per_token
        )
        self.core = Scheduler(config.scheduler, table, capacity=self._capacity)
        self.counts = EngineCounts()
        self.calls: dict[str, SimCall] = {}
        self.memory = Memory(config, self.counts, contents, swap_cost, self.calls)
        self.flight: Flight | None = None
        self._table = table
        self._cost = cost
        self._call_s: float | None = None
        self._batch = RunningBatch(
            config,
            self.core,
            self.memory,
            self.counts,
            self.calls,
            self._apply,
            block_cost_s=config.block_size * self._prefill_s_per_token,
        )
        self._fails_at_s = fails_at_s
        self._on_decision = on_decision
        self._window = 0  # steps since the last choice, modulo steps_per_schedule

    def view(self, *, num_routed: int, cached_tokens: int | None) -> EngineView:
        """What a balancer may know: nothing of how long the calls' answers will be.

        Calls for which there are slots enter with the next step, and do not count as waiting unless KV is what they lack.
        """
        num_running = len(self._batch.calls)
        num_places = num_running if self._batch.lacks_blocks else max(num_running, self.config.max_num_seqs)
        return EngineView(
            engine_id=self.engine_id,
            num_calls=len(self.calls),
            num_routed=num_routed,
            cached_tokens=cached_tokens,
            num_waiting=max(0, len(self.calls) - num_places),
            call_s=self._call_s,
            prefill_s_per_token=self._prefill_s_per_token,
        )

    def check_fits(self, call: SimCall) -> None:
        """Raise CapacityError if the whole KV cache cannot hold the call."""
        num_tokens = call.prompt_tokens + call.num_output_wanted
        if num_tokens > self.config.kv_tokens:
            raise CapacityError(
                f"program {call.program_id!r}, call {call.call_id!r}: {num_tokens} tokens do not fit the KV cache of "
                f"{self.config.kv_tokens}"
            )

    def arrive(self, call: SimCall, event: Event) -> None:
        """A call comes in, by CallArrived or CallMoved. Raises CapacityError if the whole KV cache cannot hold it."""
        self.check_fits(call)
        self.calls[call.call_id] = call
        self._apply(event)

    def begin(self, now: float) -> float | None:
        """Fill a batch; returns when its flight ends, or None if there is nothing to run."""
        batch = self._batch
        if self.memory.let_go(now):
            batch.is_settled = False
        if not batch.calls:
            self._window = 0
        if self._window == 0 and not batch.is_settled:
            batch.choose(now)
        elif batch.num_vacant:
            batch.replace_finished(now)
        work = batch.fill(now)
        while not work.calls and self.calls:  # for want of blocks the batch has lost its last call, or nobody could enter
            batch.choose(now)
            work = batch.fill(now)
            if not work.calls and not self.memory.let_go_of_first():
                break
        if not work.calls:
            return None
        self.flight = self._fly(work, now)
        return self.flight.end_s

    def cut(self, now: float) -> float | None:
        """Something is about to change: steps that have not begun are off. Returns the new end, None for the old one."""
        if self.flight is None or not self.flight.cut(now):
            return None
        return self.flight.end_s

    def cached_tokens(self, prompt: Context, now: float) -> int:
        """Tokens of a prompt that the prefix cache holds now. Steps in the air take the blocks they have begun to fill."""
        if self.flight is not None and not self.flight.work.chunks:
            num_begun = self.flight.num_begun(now)
            for call in self.flight.work.calls:
                self.memory.catch_up(call, call.num_computed + num_begun)
        return self.memory.cache.hit_tokens(prompt)

    def let_go_of_program(self, program_id: str) -> None:
        """The program is over: what is kept for it is free. The shell cuts the flight short before, as for an arrival."""
        self.memory.let_go_of_program(program_id)
        self._batch.is_settled = False

    def end(self, now: float) -> list[SimCall]:
        """The flight is over; returns the calls that finished with it."""
        flight, self.flight = self.flight, None
        if flight is None:
            return []
        work, num_steps = flight.work, len(flight.ends_s)
        duration_s = now - flight.began_s - self._note_choices(num_steps)
        self._apply(StepCompleted(now=now, duration_s=duration_s, call_ids=tuple([call.call_id for call in work.calls])))
        self.counts.num_steps += num_steps
        self.counts.busy_s += duration_s
        self._window = (self._window + num_steps) % self.config.steps_per_schedule
        self._advance(work, num_steps, now)
        finished = [c for c in work.calls if c.num_output >= c.num_output_wanted] if num_steps >= work.until_finish else []
        for call in finished:
            self._finish(call, now)
        return finished

    def _advance(self, work: Work, num_steps: int, now: float) -> None:
        """So many steps of this work are done; more than one if all its calls decode."""
        self.counts.computed_tokens += num_steps * len(work.decodes)
        for call in work.decodes:
            call.num_output += num_steps
            call.num_computed = num_computed = call.num_computed + num_steps
            call.has_yielded = True
            if num_computed > call.num_room:
                self.memory.catch_up(call, num_computed)
        for call, num_tokens in work.chunks:
            before = call.num_computed
            call.advance(num_tokens)
            self.counts.computed_tokens += num_tokens
            if before < call.prompt_tokens:
                self.memory.note_computed(call)
            if call.first_token_s is None and call.num_output:
                call.first_token_s = now

    def fail(self) -> list[SimCall]:
        """The engine is gone; returns the calls it had. They stand in its queue until the shell moves or aborts them."""
        self.flight = None
        return list(self.calls.values())

    def forget(self, call: SimCall, event: Event) -> None:
        """A call of a failed engine goes, by CallMoved or CallAborted."""
        del self.calls[call.call_id]
        self._batch.drop(call.call_id)
        self._apply(event)

    def _finish(self, call: SimCall, now: float) -> None:
        del self.calls[call.call_id]
        self._batch.finish(call.call_id)
        call.service_s = self._table.call(call.call_id).service_s
        self._call_s = call.service_s if self._call_s is None else self._call_s + _RECENT * (call.service_s - self._call_s)
        row = self._table.row(call.program_id)
        self._apply(CallFinished(now=now, call_id=call.call_id, output_tokens=call.num_output))
        retention_s = self.core.policy.retention_s(row, now)
        self.memory.finish(call, now + retention_s if retention_s > 0 else None)

    def _fly(self, work: Work, now: float) -> Flight:
        """The flight that begins with this work: as many steps as are sure to be alike."""
        step = work.step
        num_steps = self._num_steps(work)
        steady_until_s = self._steady_until_s(now) if num_steps > 1 else now
        began_s = end_s = now + self.memory.transfer_s
        self.memory.transfer_s = 0.0
        ends_s: list[float] = []
        for i in range(num_steps):
            end_s += self._cost.step_s(following_step(step, i) if i else step)
            if (self._window + i) % self.config.steps_per_schedule == 0:
                end_s += self.config.scheduling_s
            if end_s > self._fails_at_s and ends_s:
                break
            ends_s.append(end_s)
            if end_s >= steady_until_s:
                break
        return Flight(began_s, work, ends_s)

    def _num_steps(self, work: Work) -> int:
        """How many steps are sure to be alike, as far as the calls, their blocks and the choice of the batch go."""
        if work.chunks or work.until_finish == 1 or len(work.calls) < len(self._batch.calls):
            return 1
        # A call needs at most ceil((k - 1) / block size) more blocks for k steps.
        until_short = 1 + self.memory.cache.num_free_blocks // len(work.calls) * self.config.block_size
        num_steps = min(work.until_finish, until_short, self.config.max_bulk_steps)
        return num_steps if self._batch.is_settled else min(num_steps, self.config.steps_per_schedule - self._window)

    def _note_choices(self, num_steps: int) -> float:
        """Account for the choices that fell due in so many steps; returns the seconds they took."""
        every = self.config.steps_per_schedule
        num_choices = (self._window + num_steps - 1) // every - (self._window - 1) // every
        scheduling_s = num_choices * self.config.scheduling_s
        self.counts.num_choices += num_choices
        self.counts.scheduling_s += scheduling_s
        return scheduling_s

    def _steady_until_s(self, now: float) -> float:
        return min(self.core.steady_until(now), self.memory.next_expiry_s)

    def _apply(self, event: Event) -> None:
        placed = self.core.apply(event)
        if placed or not isinstance(event, StepCompleted | CallStarted | CallPreempted):
            self._batch.is_settled = False
        if self._on_decision is not None:
            self._on_decision(event, placed)

    def validate(self) -> None:
        """Check every invariant of the engine and of what it consists of."""
        self.core.validate()
        self.memory.cache.validate()
        running = {c for c in self.calls if self._table.call(c).running}
        if running != self._batch.calls.keys():
            raise CapacityError(f"engine {self.engine_id}: the batch and the running calls differ")
        if {c for c, call in self.calls.items() if self.memory.holds(call)} != running | self._batch.parked.keys():
            raise CapacityError(f"engine {self.engine_id}: calls that run or are parked and those with KV blocks differ")
