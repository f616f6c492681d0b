"""Parking: a running call that stands aside for a better one and keeps its KV.

A running request that is left out of vLLM's `running` list keeps its KV blocks, its status and its output in flight; put
back, it goes on as if nothing had happened. Only when blocks run short is the worst parked call evicted, by vLLM's own
preemption: it loses its blocks, and the prefix cache (or a KV connector) brings back what it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched.interface import PauseState

from agentix.core.events import CallPreempted, CallStarted, Event
from agentix.core.scheduler import Scheduler
from agentix.engine.blocks import EngineBlocks
from agentix.engine.pace import PrefillPace
from agentix.engine.room import Change, EngineRoom, Gate, change_quickly

logger = init_logger(f"vllm.{__name__}")


@dataclass(slots=True)
class ParkingCounts:
    """What has happened so far. `evicted_tokens` are those that evicted calls had computed."""

    num_parks: int = 0
    num_resumes: int = 0
    num_evictions: int = 0
    evicted_tokens: int = 0


class Parking:
    """Brings vLLM's `running` list into line with the core's choice of a batch, before each of vLLM's steps.

    The choice is made anew only when something has happened since the last one. Rules that spare switches: a call that has
    come to run stays until it has yielded a token; none goes for one of its own level (`running_first`, in the core); a
    parked call keeps its blocks until somebody before it in the order needs them, and a call without KV takes them only if
    that is worth it (`weigh_evictions`, in the core); and while a call waits for blocks, those after it that hold theirs go
    on. Where vLLM's model runner keeps a state per request (`num_states`), those that run, are parked or wait with KV never
    outnumber the states.

    `scheduler` is the plug-in; it tells of calls that start, yield and go, and `tell` takes events to the core; `pace` is what
    computing prompts takes here.
    """

    def __init__(
        self,
        scheduler: Any,
        core: Scheduler,
        tell: Callable[[Event], None],
        *,
        pace: PrefillPace,
        num_states: int | None,
    ) -> None:
        self.parked: dict[str, Any] = {}
        self.counts = ParkingCounts()
        self._pace = pace
        self.is_settled = False  # whether the last choice would come out the same
        self._scheduler = scheduler
        self._core = core
        self._tell = tell
        self._num_states = num_states
        self._keeps_kv = scheduler.settings.preemption != "recompute"  # else whoever is parked is evicted at once
        self._num_slots: int = scheduler.max_num_active_reqs
        self._blocks = EngineBlocks(scheduler)
        self._new: dict[str, int] = {}  # calls that run and have not yielded: their tokens of output when they came
        self._told: ParkingCounts | None = None  # what the engine's log says of the counts
        self._overdue: Set[str] = set()  # those of them that run although others were chosen

    def arrange(self, now: float) -> None:
        """Before a step: park, evict and resume, and tell vLLM how many calls it may run."""
        if self._scheduler.pause_state != PauseState.UNPAUSED:
            self._drain(now)
        elif self._all_fit():
            self._scheduler.max_num_active_reqs = self._num_slots
            self.is_settled = False
        elif not self.is_settled or self._may_grow_short():
            self._choose(now)

    def started(self, call_id: str) -> None:
        """The call has come to run."""
        self._new[call_id] = self._scheduler.requests[call_id].num_output_tokens

    def step_returned(self) -> None:
        """Output has been taken in: calls that have yielded a token may be parked from now on."""
        requests = self._scheduler.requests
        for call_id in [c for c, n in self._new.items() if c not in requests or requests[c].num_output_tokens > n]:
            del self._new[call_id]
            if call_id in self._overdue:
                self.is_settled = False
        if not requests and self.counts != self._told:  # the engine is idle: time to say what has happened
            self._told = replace(self.counts)
            logger.info("agentix: %s", self._told)

    def forget(self, call_id: str) -> None:
        """The call is over, or does not run for another reason than parking."""
        if self.parked.pop(call_id, None) is not None:
            self.is_settled = False
        self._new.pop(call_id, None)

    def release_all(self) -> None:
        """Put every parked call back, whatever the slots: vLLM is about to take the blocks of all that run."""
        self.counts.num_evictions += len(self.parked)
        self.counts.evicted_tokens += sum(request.num_computed_tokens for request in self.parked.values())
        self._scheduler.running.extend(self.parked.values())
        self.parked.clear()
        self.is_settled = False

    def _all_fit(self) -> bool:
        """Whether slots and blocks are so plentiful that every call can run: vLLM then needs no advice."""
        scheduler = self._scheduler
        if self.parked or len(scheduler.requests) > self._num_slots:
            return False
        waiting = [r.request_id for queue in (scheduler.waiting, scheduler.kv_holding_waiting) for r in queue]
        num_needed = self._num_growing(len(scheduler.running)) + sum(map(self._blocks.blocks_needed, waiting))
        return self._blocks.num_free_blocks >= num_needed

    def _may_grow_short(self) -> bool:
        """Whether the running calls may now need blocks that parked ones hold."""
        if not self.parked:
            return False
        return self._blocks.num_free_blocks < self._num_growing(self._num_slots)

    def _num_growing(self, num_running: int) -> int:
        """Blocks that so many running calls need at most for their next tokens, and those among them for their prompts."""
        return num_running * self._blocks.num_groups + sum(map(self._blocks.most_needed, self._new))

    def _choose(self, now: float) -> None:
        running, gate = self._core.running, Gate(self._scheduler)
        staying = running & self._new.keys()
        change = self._change(now, gate, running, staying)
        for call_id in change.leaving:
            self._park(self._scheduler.requests[call_id], now)
        victims = change.victims if self._keeps_kv else sorted(self.parked.keys() - set(change.coming), key=self._core.key)
        for call_id in victims:
            self._evict(call_id, now)
        entering = [c for c in change.coming if c not in self.parked and not gate.is_shut(c)]
        have_resumed = [self._resume(c, now) for c in change.coming if c in self.parked]
        self._limit(entering, gate, now)
        self._overdue = change.overdue
        is_final = not (entering or change.is_short or gate.is_expecting or self._core.policy.reranks)
        self.is_settled = is_final and all(have_resumed)

    def _change(self, now: float, gate: Gate, running: Set[str], staying: Set[str]) -> Change:
        """Who goes and who comes, by the core's order."""
        scheduler, core, parked = self._scheduler, self._core, self.parked.keys()
        # Sessions that wait for their clients keep their slots; one that was parked meanwhile takes none from a running call.
        num_slots = max(self._num_slots - scheduler.num_waiting_for_streaming_input, len(running))
        quick = change_quickly(gate, self._blocks, core, num_slots, staying=staying, parked=self.parked)
        if quick is not None:
            return quick
        holders = (running - staying) | parked
        block_cost_s = self._pace.s_per_token * scheduler.block_size / self._blocks.num_groups
        room = EngineRoom(gate, self._blocks, core, num_slots, staying=staying, holders=holders, block_cost_s=block_cost_s)
        chosen = set(core.select(now, room))
        # Calls after one that waits in vain for blocks may go on with those that they hold.
        holding = {r.request_id for r in scheduler.kv_holding_waiting if not gate.is_shut(r.request_id)}
        chosen.update(room.take_holders((running | parked | holding) - chosen))
        return Change(
            leaving=sorted(running - chosen - staying, key=core.key),
            coming=sorted(chosen - running, key=core.key),
            overdue=staying - chosen,
            victims=room.victims,
            is_short=room.is_short,
        )

    def _park(self, request: Any, now: float) -> None:
        self._scheduler.running.remove(request)
        self.parked[request.request_id] = request
        self.counts.num_parks += 1
        self._tell(CallPreempted(now=now, call_id=request.request_id))

    def _resume(self, call_id: str, now: float) -> bool:
        """Put a parked call back; not while output of it is in flight, or an adapter too many would be loaded."""
        request = self.parked[call_id]
        if request.num_output_placeholders or not self._adapter_fits(request):
            return False
        del self.parked[call_id]
        self._scheduler.running.append(request)
        self.counts.num_resumes += 1
        self._tell(CallStarted(now=now, call_id=call_id))
        self.started(call_id)
        return True

    def _adapter_fits(self, request: Any) -> bool:
        lora_config = self._scheduler.lora_config
        if not lora_config or not request.lora_request:
            return True
        loaded = {r.lora_request.lora_int_id for r in self._scheduler.running if r.lora_request}
        return bool(len(loaded | {request.lora_request.lora_int_id}) <= lora_config.max_loras)

    def _worst_parked(self, number: int) -> list[str]:
        """So many calls that can be evicted, worst first."""
        evictable = [call_id for call_id, request in self.parked.items() if self._can_evict(request)]
        return sorted(evictable, key=self._core.key, reverse=True)[:number]

    def _can_evict(self, request: Any) -> bool:
        """Whether nothing under way needs the parked call's blocks.

        That may be a transfer of KV, or the end of a streaming-input session's answer: vLLM would lose a session whose
        answer ends while it has no KV.
        """
        is_ending = request.resumable and request.num_in_flight_tokens
        return bool(self._scheduler._request_blocks_can_be_freed(request) and not is_ending)

    def _evict(self, call_id: str, now: float) -> None:
        """Take a call's blocks, if it is parked and that is possible now."""
        scheduler, request = self._scheduler, self.parked.get(call_id)
        if request is None or not self._can_evict(request):
            return
        self.counts.num_evictions += 1
        self.counts.evicted_tokens += request.num_computed_tokens
        self.forget(call_id)
        # It may come back in this very step, and the model runner then needs all its tokens: as in vLLM's `reset_prefix_cache`.
        scheduler.prev_step_scheduled_req_ids.discard(call_id)
        scheduler._preempt_request(request, now, drop_stale_output=scheduler.requires_kv_delivery)

    def _limit(self, entering: Sequence[str], gate: Gate, now: float) -> None:
        """Let vLLM admit so many calls: more than were chosen would pass by calls that are parked.

        Where the model runner's states are too few for all, the worst parked calls go, and then calls that wait with KV,
        and so have their states, go first: vLLM admits those before any other.
        """
        scheduler, num_entering, num_running = self._scheduler, len(entering), len(self._scheduler.running)
        if self._num_states is not None:
            holding = [request.request_id for request in scheduler.kv_holding_waiting]
            num_left = self._num_states - num_running - len(holding) - len(set(entering).difference(holding))
            for call_id in self._worst_parked(max(0, len(self.parked) - num_left)):
                self._evict(call_id, now)
            num_short = max(0, len(self.parked) - num_left)
            if num_short:
                num_entering = max(num_entering - num_short, min(num_entering, sum(not gate.is_shut(c) for c in holding)))
        scheduler.max_num_active_reqs = num_running + scheduler.num_waiting_for_streaming_input + num_entering

    def _drain(self, now: float) -> None:
        """Serve a pause of vLLM: where calls that hold KV are to be finished, parked ones are among them."""
        scheduler = self._scheduler
        scheduler.max_num_active_reqs = self._num_slots
        self.is_settled = False
        if scheduler.pause_state == PauseState.PAUSED_NEW:
            num_free = self._num_slots - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
            for call_id in sorted(self.parked, key=self._core.key)[: max(0, num_free)]:
                self._resume(call_id, now)


def can_park(scheduler: Any) -> bool:
    """Whether running calls are to be parked on this engine, and may be; if not the queue is ordered all the same."""
    policy = scheduler.core.policy
    is_stock = policy.ignores_programs and len(policy.quanta_s) == 1  # nobody gives way: vLLM is left as it is
    if scheduler.settings.preemption == "none" or is_stock:
        return False
    reasons = {
        "speculative decoding": scheduler.vllm_config.speculative_config is not None,
        "pipeline parallelism": scheduler.vllm_config.parallel_config.pipeline_parallel_size > 1,
        "a model runner with a slot per request, unless --max-num-active-seqs is less than --max-num-seqs": (
            scheduler.use_v2_model_runner and scheduler.max_num_active_reqs >= scheduler.max_num_running_reqs
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            logger.warning("agentix: running calls are not parked with %s; waiting calls are ordered", reason)
    return not any(reasons.values())
