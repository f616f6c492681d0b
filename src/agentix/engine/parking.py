"""Parking: a running call that stands aside for a better one and keeps its KV.

A running request that is left out of vLLM's `running` list keeps its KV blocks, its status and its output in flight; put
back, it goes on as if nothing had happened. Only when blocks run short is the worst parked call evicted, by vLLM's own
preemption: it loses its blocks, and the prefix cache (or a KV connector) brings back what it can.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.sched.interface import PauseState

from agentix.core.program import CallRow
from agentix.core.room import Room
from agentix.core.scheduler import Scheduler
from agentix.engine.blocks import EngineBlocks


@dataclass(slots=True)
class ParkingCounts:
    """What has happened so far. `recomputed_tokens` are those that evicted calls had computed."""

    num_parks: int = 0
    num_resumes: int = 0
    num_evictions: int = 0
    recomputed_tokens: int = 0


class Parking:
    """Brings vLLM's `running` list into line with the core's choice of a batch, before each of vLLM's steps.

    The choice is made anew only when something has happened since the last one. Three rules spare switches: a call that
    has come to run stays until it has yielded a token; none goes for one of its own level (`running_first`, in the
    core); a parked call keeps its blocks until somebody before it in the order needs them. Where vLLM's model runner
    keeps a slot per request (`num_states`), running and parked calls together never exceed the slots.

    `scheduler` is the plug-in; it tells of calls that start, yield and go, and lets `shelve` tell the core.
    """

    def __init__(self, scheduler: Any, core: Scheduler, *, num_states: int | None) -> None:
        self.parked: dict[str, Any] = {}
        self.counts = ParkingCounts()
        self.is_settled = False  # whether the last choice would come out the same
        self._scheduler = scheduler
        self._core = core
        self._num_states = num_states
        self._num_slots: int = scheduler.max_num_active_reqs
        self._blocks = EngineBlocks(scheduler)
        self._new: dict[str, int] = {}  # calls that run and have not yielded: their tokens of output when they came

    def arrange(self, now: float) -> None:
        """Before a step: park, evict and resume, and tell vLLM how many calls it may run."""
        scheduler = self._scheduler
        if scheduler.pause_state != PauseState.UNPAUSED:
            self._drain()
            return
        if self.parked and self._blocks.num_free_blocks < len(scheduler.running):
            self.is_settled = False  # each running call may soon need a block
        if not self.is_settled:
            self._choose(now)

    def started(self, call_id: str) -> None:
        """The call has come to run."""
        self._new[call_id] = self._scheduler.requests[call_id].num_output_tokens

    def step_returned(self) -> None:
        """Output has been taken in: calls that have yielded a token may be parked from now on."""
        requests = self._scheduler.requests
        for call_id in [c for c, n in self._new.items() if c not in requests or requests[c].num_output_tokens > n]:
            del self._new[call_id]
            self.is_settled = False

    def forget(self, call_id: str) -> None:
        """The call is over, or has lost its blocks."""
        self.parked.pop(call_id, None)
        self._new.pop(call_id, None)

    def release_all(self) -> None:
        """Put every parked call back, whatever the slots: vLLM is about to preempt them all."""
        self._scheduler.running.extend(self.parked.values())
        self.parked.clear()
        self.is_settled = False

    def _choose(self, now: float) -> None:
        scheduler = self._scheduler
        running = {request.request_id: request for request in scheduler.running}
        staying = running.keys() & self._new.keys()
        holders = [*(c for c in running if c not in staying), *self.parked]
        num_slots = self._num_slots - scheduler.num_waiting_for_streaming_input
        room = _EngineRoom(scheduler, self._blocks, self._core, num_slots, staying=staying, holders=holders)
        batch = self._core.choose(now, room)
        for call_id in batch.preempt:
            if call_id in running and call_id not in staying:
                self._park(running[call_id])
        for call_id in room.victims:
            self._evict(call_id, now)
        waiting = [c for c in batch.admit if c not in self.parked and not room.is_blocked(c)]
        resumed = [self._resume(c) for c in batch.admit if c in self.parked]
        if self._num_states is not None:
            self._free_states(self._num_states - len(scheduler.running) - len(waiting), now)
        # vLLM fills what is left from the queue; more than were chosen would pass by calls that are parked.
        scheduler.max_num_active_reqs = min(
            self._num_slots, len(scheduler.running) + len(waiting) + scheduler.num_waiting_for_streaming_input
        )
        self.is_settled = not staying and not waiting and all(resumed) and not self._core.policy.reranks

    def _park(self, request: Any) -> None:
        self._scheduler.running.remove(request)
        self.parked[request.request_id] = request
        self.counts.num_parks += 1
        self._scheduler.shelve(request)

    def _resume(self, call_id: str) -> bool:
        """Put a parked call back; not while output of it is in flight, or an adapter too many would be loaded."""
        request = self.parked[call_id]
        if request.num_output_placeholders or not self._adapter_fits(request):
            return False
        del self.parked[call_id]
        self._scheduler.running.append(request)
        self.counts.num_resumes += 1
        return True

    def _adapter_fits(self, request: Any) -> bool:
        lora_config = self._scheduler.lora_config
        if not lora_config or not request.lora_request:
            return True
        loaded = {r.lora_request.lora_int_id for r in self._scheduler.running if r.lora_request}
        return bool(len(loaded | {request.lora_request.lora_int_id}) <= lora_config.max_loras)

    def _evict(self, call_id: str, now: float) -> None:
        """Take a parked call's blocks, unless a transfer that is under way needs them."""
        request = self.parked.get(call_id)
        if request is None or not self._scheduler._request_blocks_can_be_freed(request):
            return
        self.counts.num_evictions += 1
        self.counts.recomputed_tokens += request.num_computed_tokens
        self.forget(call_id)
        self._scheduler._preempt_request(request, now)

    def _free_states(self, num_states: int, now: float) -> None:
        """Evict the worst parked calls until no more than `num_states` are left."""
        for call_id in sorted(self.parked, key=self._core.key)[max(0, num_states) :]:
            self._evict(call_id, now)

    def _drain(self) -> None:
        """Serve a pause of vLLM: where calls that hold KV are to be finished, parked ones are among them."""
        self._scheduler.max_num_active_reqs = self._num_slots
        self.is_settled = False
        if self._scheduler.pause_state == PauseState.PAUSED_NEW:
            for call_id in sorted(self.parked, key=self._core.key)[: max(0, self._num_slots - len(self._scheduler.running))]:
                self._resume(call_id)


class _EngineRoom(Room):
    """Passes by calls that could not run anyway: sessions that wait for their client's next piece, transfers, grammars."""

    def __init__(
        self, scheduler: Any, blocks: EngineBlocks, core: Scheduler, num_slots: int, *, staying: Set[str], holders: list[str]
    ) -> None:
        super().__init__(blocks, core, num_slots, staying=staying, holders=holders)
        self._scheduler = scheduler

    def take(self, call: CallRow) -> bool:
        """Reserve a slot and blocks; blocked calls need neither."""
        return self.is_blocked(call.call_id) or super().take(call)

    def is_blocked(self, call_id: str) -> bool:
        """Whether vLLM would pass by the call too."""
        return bool(self._scheduler._is_blocked_waiting_status(self._scheduler.requests[call_id].status))
