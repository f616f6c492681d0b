"""A modelled engine: continuous batching, chunked prefill, KV blocks and preemption, one iteration at a time.

It decides nothing about order: that is `agentix.core.Scheduler`, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agentix.core.config import SchedulerConfig
from agentix.core.errors import AgentixError, ConfigError
from agentix.core.events import Batch, CallArrived, CallFinished, CallPreempted, CallStarted, Event, Placed, StepCompleted
from agentix.core.process_table import ProcessTable
from agentix.core.scheduler import Scheduler
from agentix.cost.step import Step, StepCostModel, causal_pairs
from agentix.sim.call import SimCall
from agentix.sim.content import Contents
from agentix.sim.kv_cache import KVCache
from agentix.sim.room import Room

OnDecision = Callable[[Event, list[Placed] | list[Batch]], None]


class CapacityError(AgentixError):
    """A call that the engine can never hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What engine is modelled. Names follow vLLM where it has them.

    preemption         what happens to a preempted call's KV: "park" keeps its blocks until somebody better needs them,
                       "recompute" gives them up at once (what is left of them in the prefix cache comes back)
    steps_per_schedule the batch is chosen anew every so many steps (the paper's multi-step scheduling)
    chunked_prefill    off: a prompt is computed in one step, alone if it is longer than `max_batch_tokens`
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    max_num_seqs: int = 64
    max_batch_tokens: int = 2048
    num_blocks: int = 25_000
    block_size: int = 16
    prefix_cache: bool = True
    chunked_prefill: bool = True
    preemption: str = "park"
    steps_per_schedule: int = 1

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_batch_tokens", "num_blocks", "block_size", "steps_per_schedule"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.preemption not in ("park", "recompute"):
            raise ConfigError(f"unknown preemption {self.preemption!r}; known: park, recompute")


@dataclass(slots=True)
class EngineCounts:
    """What an engine has done so far."""

    num_steps: int = 0
    busy_s: float = 0.0
    num_preemptions: int = 0
    num_evictions: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


class ModelledEngine:
    """One engine. A shell calls `arrive`, `begin_step` and, that much later, `end_step`; it owns the clock.

    Between `begin_step` and `end_step` the step is in the air: calls may arrive, nothing else changes. `on_decision` is told
    every event with the core's decisions on it, and every batch with the event before it: a decision log.
    """

    def __init__(
        self,
        engine_id: str,
        config: EngineConfig,
        *,
        table: ProcessTable,
        cost: StepCostModel,
        contents: Contents,
        on_decision: OnDecision | None = None,
    ) -> None:
        self.engine_id = engine_id
        self.config = config
        self.core = Scheduler(config.scheduler, table)
        self.cache = KVCache(config.num_blocks, config.block_size, prefix_cache=config.prefix_cache)
        self.calls: dict[str, SimCall] = {}
        self.counts = EngineCounts()
        self._table = table
        self._cost = cost
        self._contents = contents
        self._on_decision = on_decision
        self._batch: dict[str, SimCall] = {}
        self._step: list[tuple[SimCall, int]] = []
        self._step_began_s = 0.0
        self._steps_to_choice = 0
        self._is_settled = False  # whether the last choice would come out the same: nothing came, went or moved since

    def arrive(self, call: SimCall, event: CallArrived) -> None:
        """A call comes in. Raises CapacityError if the whole KV cache cannot hold it."""
        num_tokens = call.prompt.num_tokens + call.num_output_wanted
        if self.cache.blocks_for(num_tokens) > self.config.num_blocks:
            raise CapacityError(
                f"program {call.program_id!r}, call {call.call_id!r}: {num_tokens} tokens do not fit the KV cache of "
                f"{self.config.num_blocks * self.config.block_size}"
            )
        self.calls[call.call_id] = call
        self._apply(event)

    def begin_step(self, now: float) -> float | None:
        """Fill a batch; returns how long the step takes, or None if there is nothing to run."""
        if self._steps_to_choice == 0 or not self._batch:
            if not self._is_settled:
                self._choose(now)
            self._steps_to_choice = self.config.steps_per_schedule
        self._steps_to_choice -= 1
        self._fill(now)
        if not self._step and self.calls:  # for want of blocks the batch has just lost its last call
            self._choose(now)
            self._fill(now)
        if not self._step:
            return None
        self._step_began_s = now
        return self._cost.step_s(self._work())

    def end_step(self, now: float) -> list[SimCall]:
        """The step is over; returns the calls that finished with it."""
        step, self._step = self._step, []
        duration_s = now - self._step_began_s
        self._apply(StepCompleted(now=now, duration_s=duration_s, call_ids=tuple(call.call_id for call, _ in step)))
        self.counts.num_steps += 1
        self.counts.busy_s += duration_s
        finished = [call for call, num_tokens in step if self._advance(call, num_tokens, now)]
        for call in finished:
            del self._batch[call.call_id]
            self.cache.release(call.call_id)
            del self.calls[call.call_id]
            self._apply(CallFinished(now=now, call_id=call.call_id, output_tokens=call.num_output))
        return finished

    def _advance(self, call: SimCall, num_tokens: int, now: float) -> bool:
        """Account for what a step computed of a call; returns whether its answer is complete."""
        block_size = self.config.block_size
        before = call.num_computed // block_size
        call.num_computed += num_tokens
        self.counts.computed_tokens += num_tokens
        if call.num_computed // block_size > before:
            self.cache.computed(call.call_id, call.known(self._contents), call.num_computed)
        if call.num_computed < call.num_known:
            return False
        call.num_output += 1
        call.has_yielded = True
        if call.first_token_s is None:
            call.first_token_s = now
        return call.num_output >= call.num_output_wanted

    def _choose(self, now: float) -> None:
        # A call that entered the batch stays until it has yielded a token: were it sent away before, it could come back
        # for ever and compute the same prompt each time.
        staying = {c: call for c, call in self._batch.items() if not call.has_yielded}
        room = Room(self.cache, self.calls, self.core, num_slots=self.config.max_num_seqs, staying=staying.keys())
        batch = self.core.choose(now, room)
        for call_id in batch.preempt:
            if call_id not in staying:
                self._preempt(self.calls[call_id], now)
        for call_id in room.victims:
            self._evict(self.calls[call_id])
        for call_id in batch.admit:
            self._admit(self.calls[call_id], now)
        self._batch = {c: self.calls[c] for c in batch.run if self._table.calls[c].running} | staying
        # A call that did not get in although it was chosen may get in next time.
        self._is_settled = len(self._batch) == len(batch.run) and not staying and not self.core.policy.reranks

    def _admit(self, call: SimCall, now: float) -> None:
        if not self.cache.held_blocks(call.call_id):
            found = self.cache.admit(call.call_id, call.known(self._contents), call.num_known)
            if found is None:
                return  # blocks it counted on were shared by a call that goes too; it waits for the next choice
            call.num_computed = found
            call.num_room = self.cache.held_blocks(call.call_id) * self.config.block_size
            if call.cached_tokens is None:
                call.cached_tokens = min(found, call.prompt.num_tokens)
                self.counts.prompt_tokens += call.prompt.num_tokens
                self.counts.cached_tokens += call.cached_tokens
        call.has_yielded = False
        self._apply(CallStarted(now=now, call_id=call.call_id))

    def _preempt(self, call: SimCall, now: float) -> None:
        self.counts.num_preemptions += 1
        self._apply(CallPreempted(now=now, call_id=call.call_id))
        if self.config.preemption == "recompute":
            self._evict(call)

    def _evict(self, call: SimCall) -> None:
        """Take the call's blocks; what it had computed must be computed again, as far as the prefix cache forgets it."""
        if self.cache.held_blocks(call.call_id):
            self.counts.num_evictions += 1
            self.counts.recomputed_tokens += call.num_computed
            self.cache.release(call.call_id)
            call.num_computed = call.num_room = 0
            self._is_settled = False

    def _fill(self, now: float) -> None:
        """Give every call of the batch its tokens of this step, best first, within the token budget."""
        budget = self.config.max_batch_tokens
        for call in list(self._batch.values()):
            num_known = call.num_known
            num_tokens = num_known - call.num_computed
            if num_tokens > budget:
                if self.config.chunked_prefill:
                    num_tokens = budget
                elif self._step:
                    continue
            if num_tokens <= 0 or call.call_id not in self._batch:
                continue
            if num_known > call.num_room and not self._make_room(call, now):
                continue
            self._step.append((call, num_tokens))
            budget -= num_tokens

    def _make_room(self, call: SimCall, now: float) -> bool:
        """Blocks for all its known tokens, taken from worse calls if need be; False if the call itself had to go."""
        while not self.cache.grow(call.call_id, call.num_known):
            victim = self._worst_holder()
            if self._table.call(victim.call_id).running:
                del self._batch[victim.call_id]
                self._preempt(victim, now)
            self._evict(victim)
            if victim is call:
                return False
        call.num_room = self.cache.held_blocks(call.call_id) * self.config.block_size
        return True

    def _worst_holder(self) -> SimCall:
        """The call that must give up its blocks first. One that has not yielded asks for none and is spared."""
        spared = {call.call_id for call, _ in self._step} | {c for c, call in self._batch.items() if not call.has_yielded}
        holders = [c for c in self.calls if self.cache.held_blocks(c) and c not in spared]
        return self.calls[max(holders, key=self.core.key)]

    def _work(self) -> Step:
        """The step in the numbers that its duration depends on."""
        prefill_tokens = prefill_pairs = num_decodes = decode_context_tokens = 0
        for call, num_tokens in self._step:
            if call.is_decoding:
                num_decodes += 1
                decode_context_tokens += call.num_known
            else:
                prefill_tokens += num_tokens
                prefill_pairs += causal_pairs(num_tokens, call.num_computed)
        return Step(
            prefill_tokens=prefill_tokens,
            prefill_pairs=prefill_pairs,
            num_decodes=num_decodes,
            decode_context_tokens=decode_context_tokens,
        )

    def _apply(self, event: Event) -> None:
        placed = self.core.apply(event)
        if placed or not isinstance(event, StepCompleted):
            self._is_settled = False
        if self._on_decision is not None:
            self._on_decision(event, placed)

    def validate(self) -> None:
        """Check every invariant of the engine and of what it consists of."""
        self.core.validate()
        self.cache.validate()
        running = {c for c in self.calls if self._table.call(c).running}
        if running != self._batch.keys():
            raise CapacityError(f"engine {self.engine_id}: the batch and the running calls differ")
        if any(not self.cache.held_blocks(c) for c in running):
            raise CapacityError(f"engine {self.engine_id}: a call runs without KV blocks")
