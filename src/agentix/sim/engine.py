"""A modelled engine: continuous batching, chunked prefill, KV blocks and preemption, one iteration at a time.

It decides nothing about order: that is `agentix.core.Scheduler`, unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from agentix.core.events import Batch, CallFinished, CallPreempted, CallStarted, Event, Placed, StepCompleted
from agentix.core.process_table import ProcessTable
from agentix.core.room import Room
from agentix.core.scheduler import Scheduler
from agentix.cost.step import Step, StepCostModel, causal_pairs
from agentix.sim.call import SimCall
from agentix.sim.config import CapacityError, EngineConfig, EngineCounts
from agentix.sim.content import Contents, Context
from agentix.sim.flight import Flight, Work, following_step, survey
from agentix.sim.memory import Memory, SwapCost

OnDecision = Callable[[Event, list[Placed] | list[Batch]], None]


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
        self.core = Scheduler(config.scheduler, table, capacity_tokens=config.kv_tokens)
        self.counts = EngineCounts()
        self.calls: dict[str, SimCall] = {}
        self.memory = Memory(config, self.counts, contents, swap_cost, self.calls)
        self.flight: Flight | None = None
        self._table = table
        self._cost = cost
        num_tokens = config.max_batch_tokens
        prefill_s = cost.step_s(Step(prefill_tokens=num_tokens, prefill_pairs=causal_pairs(num_tokens)))
        self._block_cost_s = config.block_size * prefill_s / num_tokens  # time to compute a block again
        self._fails_at_s = fails_at_s
        self._on_decision = on_decision
        self._batch: dict[str, SimCall] = {}
        self._parked: dict[str, SimCall] = {}  # preempted, with KV on the device
        self._window = 0  # steps since the last choice, modulo steps_per_schedule
        self._num_spares = 0  # calls that may still take a finished one's place before the next choice
        self._num_vacant = 0  # such places
        self._is_settled = False  # whether the last choice would come out the same: nothing came, went or moved since

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
        if self.memory.let_go(now):
            self._is_settled = False
        if not self._batch:
            self._window = 0
        if self._window == 0 and not self._is_settled:
            self._choose(now)
        elif self._num_vacant:
            self._replace_finished(now)
        work = self._fill(now)
        while not work and self.calls:  # for want of blocks the batch has lost its last call, or nobody could enter
            self._choose(now)
            work = self._fill(now)
            if not work and not self.memory.let_go_of_first():
                break
        if not work:
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
        if self.flight is not None and self.flight.decodes:
            num_begun = self.flight.num_begun(now)
            for call, _ in self.flight.work:
                self.memory.catch_up(call, call.num_computed + num_begun)
        return self.memory.cache.hit_tokens(prompt)

    def let_go_of_program(self, program_id: str) -> None:
        """The program is over: what is kept for it is free. The shell cuts the flight short before, as for an arrival."""
        self.memory.let_go_of_program(program_id)
        self._is_settled = False

    def end(self, now: float) -> list[SimCall]:
        """The flight is over; returns the calls that finished with it."""
        flight, self.flight = self.flight, None
        if flight is None:
            return []
        num_steps = len(flight.ends_s)
        duration_s = now - flight.began_s - self._note_choices(num_steps)
        self._apply(StepCompleted(now=now, duration_s=duration_s, call_ids=tuple([call.call_id for call, _ in flight.work])))
        self.counts.num_steps += num_steps
        self.counts.busy_s += duration_s
        self._window = (self._window + num_steps) % self.config.steps_per_schedule
        advance = self._advance_answers if flight.decodes else self._advance
        finished = advance(flight.work, num_steps, duration_s, now)
        for call in finished:
            self._finish(call, now)
        return finished

    def _advance(self, work: Work, num_steps: int, duration_s: float, now: float) -> list[SimCall]:
        """One step is done; returns the calls it completed."""
        for call, num_tokens in work:
            before = call.num_computed
            call.service_s += duration_s
            call.advance(num_tokens)
            self.counts.computed_tokens += num_tokens
            if before < call.prompt_tokens:
                self.memory.note_computed(call)
            if call.first_token_s is None and call.num_output:
                call.first_token_s = now
        return [call for call, _ in work if call.num_output >= call.num_output_wanted]

    def _advance_answers(self, work: Work, num_steps: int, duration_s: float, now: float) -> list[SimCall]:
        """Steps that computed one token of every answer are done; returns the calls they completed."""
        finished = []
        self.counts.computed_tokens += num_steps * len(work)
        for call, _ in work:
            call.service_s += duration_s
            call.num_output += num_steps
            call.num_computed += num_steps
            self.memory.catch_up(call, call.num_computed)
            if call.num_output >= call.num_output_wanted:
                finished.append(call)
            else:
                call.has_yielded = True
        return finished

    def fail(self) -> list[SimCall]:
        """The engine is gone; returns the calls it had. They stand in its queue until the shell moves or aborts them."""
        self.flight = None
        return list(self.calls.values())

    def forget(self, call: SimCall, event: Event) -> None:
        """A call of a failed engine goes, by CallMoved or CallAborted."""
        del self.calls[call.call_id]
        self._batch.pop(call.call_id, None)
        self._parked.pop(call.call_id, None)
        self._apply(event)

    def _finish(self, call: SimCall, now: float) -> None:
        del self._batch[call.call_id], self.calls[call.call_id]
        row = self._table.row(call.program_id)
        self._apply(CallFinished(now=now, call_id=call.call_id, output_tokens=call.num_output))
        retention_s = self.core.policy.retention_s(row, now)
        self.memory.finish(call, now + retention_s if retention_s > 0 else None)
        if self._num_spares:
            self._num_spares -= 1
            self._num_vacant += 1

    def _choose(self, now: float) -> None:
        self.memory.let_go_for(self._batch)
        # A call that entered the batch stays until it has yielded a token: were it sent away before, it could come back
        # for ever and compute the same prompt each time.
        new = {c: call for c, call in self._batch.items() if not call.has_yielded}
        staying = dict(self._batch) if self.config.preemption == "none" else new
        holders = [*(c for c in self._batch if c not in staying), *self._parked]
        room = Room(
            self.memory,
            self.core,
            self.config.max_num_seqs,
            staying=staying.keys(),
            holders=holders,
            block_cost_s=self._block_cost_s,
        )
        batch = self.core.choose(now, room)
        if room.has_refused:
            more = room.take_holders(set(holders).difference(batch.run))
            batch = Batch(
                run=(*batch.run, *more),
                admit=(*batch.admit, *(c for c in more if c in self._parked)),
                preempt=tuple(c for c in batch.preempt if c not in more),
            )
        self._is_settled = True  # unless what follows moves somebody
        for call_id in batch.preempt:
            if call_id not in staying:
                self._preempt(self.calls[call_id], now)
        for call_id in room.victims:
            self._evict(self.calls[call_id])
        if self.config.preemption in ("swap", "recompute"):
            admitted = frozenset(batch.admit)
            leaving = sorted((c for c in self._parked if c not in admitted), key=self.core.key)
            for call_id in leaving[self.config.num_spare_calls :]:
                self._evict(self.calls[call_id])
        have_entered = [self._admit(self.calls[call_id], now) for call_id in batch.admit]
        rows = self._table.calls
        self._batch = {c: self.calls[c] for c in batch.run if rows[c].running} | staying
        self._num_spares, self._num_vacant = self.config.num_spare_calls, 0
        # The calls that were chosen stand first now, so they would be chosen again; unless others had to be left out for want
        # of blocks, which whoever enters may free or share, or run only because they had not yielded yet.
        is_final = not room.is_short and all(have_entered) and new.keys() <= set(batch.run)
        policy = self.core.policy
        self._is_settled &= (is_final or not (batch.admit or new)) and not policy.reranks
        if policy.holds_programs and batch.admit:
            self._is_settled = False  # whom it holds back may depend on who runs

    def _admit(self, call: SimCall, now: float) -> bool:
        """Let it enter the batch with blocks for all its known tokens; False if they are too few."""
        # Blocks it counted on may be shared by a call that goes too; then it waits for the next choice.
        if not (self.memory.grow(call) if self.memory.holds(call) else self.memory.admit(call)):
            return False
        self._parked.pop(call.call_id, None)
        call.start(now)
        self._apply(CallStarted(now=now, call_id=call.call_id))
        return True

    def _preempt(self, call: SimCall, now: float) -> None:
        self.counts.num_preemptions += 1
        call.stop(now)
        self._parked[call.call_id] = call
        self._apply(CallPreempted(now=now, call_id=call.call_id))

    def _evict(self, call: SimCall) -> None:
        """The KV of a preempted call leaves the device."""
        self._parked.pop(call.call_id, None)
        self.memory.evict(call)

    def _replace_finished(self, now: float) -> None:
        """Let preempted calls whose KV is on the device take the places of finished ones, best first."""
        for call_id in sorted(self._parked, key=self.core.key)[: self._num_vacant]:
            if self._admit(self.calls[call_id], now):
                self._batch[call_id] = self.calls[call_id]
                self._num_vacant -= 1

    def _fill(self, now: float) -> Work:
        """Give every call of the batch its tokens of this step, best first, within the token budget."""
        budget = self.config.max_batch_tokens
        work: Work = []
        for call in list(self._batch.values()):
            num_known = call.prompt_tokens + call.num_output
            num_tokens = num_known - call.num_computed
            if num_tokens > budget:
                if self.config.chunked_prefill:
                    num_tokens = budget
                elif work:
                    continue
            if num_tokens <= 0 or call.call_id not in self._batch:
                continue
            if num_known > call.num_room and not self._make_room(call, work, now):
                continue
            work.append((call, num_tokens))
            budget -= num_tokens
        return work

    def _make_room(self, call: SimCall, work: Work, now: float) -> bool:
        """Blocks for all its known tokens, taken from worse calls if need be; False if the call itself had to go."""
        while not self.memory.grow(call):
            if self.memory.let_go_of_first():
                continue
            victim = self._worst_holder(work)
            if self._table.call(victim.call_id).running:
                del self._batch[victim.call_id]
                self._preempt(victim, now)
            self._evict(victim)
            self._is_settled = False
            if victim is call:
                return False
        return True

    def _worst_holder(self, work: Work) -> SimCall:
        """The call that must give up its blocks first. One that has not yielded asks for none and is spared."""
        spared = {call.call_id for call, _ in work} | {c for c, call in self._batch.items() if not call.has_yielded}
        holders = (c for c in (*self._batch, *self._parked) if c not in spared)
        return self.calls[max(holders, key=self.core.key)]

    def _fly(self, work: Work, now: float) -> Flight:
        """The flight that begins with this work: as many steps as are sure to be alike."""
        step, until_finish = survey(work)
        num_steps = self._num_steps(work, until_finish)
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
        return Flight(began_s, work, ends_s, decodes=not step.prefill_tokens)

    def _num_steps(self, work: Work, until_finish: int) -> int:
        """How many steps are sure to be alike, as far as the calls, their blocks and the choice of the batch go."""
        if until_finish == 1 or len(work) < len(self._batch):
            return 1
        # A call needs at most ceil((k - 1) / block size) more blocks for k steps.
        until_short = 1 + self.memory.cache.num_free_blocks // len(work) * self.config.block_size
        num_steps = min(until_finish, until_short, self.config.max_bulk_steps)
        return num_steps if self._is_settled else min(num_steps, self.config.steps_per_schedule - self._window)

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
            self._is_settled = False
        if self._on_decision is not None:
            self._on_decision(event, placed)

    def validate(self) -> None:
        """Check every invariant of the engine and of what it consists of."""
        self.core.validate()
        self.memory.cache.validate()
        running = {c for c in self.calls if self._table.call(c).running}
        if running != self._batch.keys():
            raise CapacityError(f"engine {self.engine_id}: the batch and the running calls differ")
        if {c for c, call in self.calls.items() if self.memory.holds(call)} != running | self._parked.keys():
            raise CapacityError(f"engine {self.engine_id}: calls that run or are parked and those with KV blocks differ")
