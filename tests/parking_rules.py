"""What has to hold around every parking, checked on vLLM's real scheduler as it happens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentix.core.events import CallPreempted, CallStarted, Event
from benchmarks.without_model.scheduler import Engine, ProgramScheduler


class Watched(ProgramScheduler):
    """The plug-in; looks at each event on its way to the core."""

    _parking: Any  # always there: preemption is on in every test that uses this

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.events: list[Event] = []
        self.num_preempted = 0
        self._started: dict[str, int] = {}  # tokens of output when the call came to run
        self._parked: dict[str, int] = {}  # tokens computed when it was parked; gone with its blocks or its answer's end
        self._running_before: set[str] = set()
        super().__init__(*args, **kwargs)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        self._running_before = set(self.core.running)
        self._for_nobody: set[str] = set()
        num_own_before = self.num_preempted - self._parking.counts.num_evictions
        output = super().schedule(*args, **kwargs)
        if self.num_preempted - self._parking.counts.num_evictions > num_own_before:
            return output  # vLLM itself has taken blocks since
        blocks = self._parking._blocks
        num_free = blocks.num_free_blocks - sum(blocks.blocks_needed(r.request_id) for r in self.running if r.is_prefill_chunk)
        for call_id in self._for_nobody & self._parking.parked.keys():
            assert blocks.blocks_needed(call_id) > num_free, f"{call_id} is parked, and nobody better waited"
        return output

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self.num_preempted += 1
        self._parked.pop(request.request_id, None)
        super()._preempt_request(request, *args, **kwargs)

    def _handle_stopped_request(self, request: Any) -> Any:
        self._parked.pop(request.request_id, None)
        return super()._handle_stopped_request(request)

    def _apply(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, CallPreempted) and event.call_id in self._parking.parked:
            self._check_park(event.call_id)
        if isinstance(event, CallStarted):
            request = self.requests[event.call_id]
            self._started[event.call_id] = request.num_output_tokens
            num_computed_tokens = self._parked.pop(event.call_id, None)
            if num_computed_tokens is not None:
                assert request.num_computed_tokens == num_computed_tokens, "a parked call has lost what it had"
        super()._apply(event)

    def _check_park(self, call_id: str) -> None:
        request = self.requests[call_id]
        assert request.num_output_tokens > self._started[call_id], "parked before it has yielded a token"
        self._parked[call_id] = request.num_computed_tokens
        place = self.core.key(call_id)
        better = [c for c in self.core.order if c not in self._running_before and self.core.key(c) < place]
        if self.settings.scheduler.running_first and not self.core.policy.reranks:
            better = [c for c in better if self.core.level(c) < self.core.level(call_id)]
        if not better:
            self._for_nobody.add(call_id)  # fine if it loses its blocks, or lacks one for its next token


def validate(engine: Engine) -> None:
    """Core, parking, vLLM's lists and its block pool tell the same story."""
    scheduler = engine.scheduler
    parked, running = scheduler._parking.parked, {r.request_id for r in scheduler.running}
    queued = Counter(r.request_id for queue in (scheduler.kv_holding_waiting, scheduler.waiting) for r in queue)
    scheduler.core.validate()
    scheduler.programs.validate()
    assert scheduler.programs.calls.keys() == scheduler.requests.keys()
    assert running == set(scheduler.core.running)
    places = Counter(running) + Counter(parked.keys()) + queued
    assert Counter(scheduler.requests.keys()) == places, "a request in two places, or in none"
    assert scheduler.get_request_counts() == (len(running), len(parked) + queued.total())
    assert all(r.status.name == "RUNNING" and r.num_computed_tokens for r in parked.values())
    assert all(r.priority == scheduler.core.level(i) for i, r in scheduler.requests.items())
    for queue in (scheduler.kv_holding_waiting, scheduler.waiting):
        waiting = [r.request_id for r in queue]
        assert waiting == sorted(waiting, key=scheduler.core.key)
    assert len(running) <= scheduler._parking._num_slots
    if scheduler.use_v2_model_runner:
        assert len(running) + len(parked) + len(scheduler.kv_holding_waiting) <= scheduler.max_num_running_reqs
    check_blocks(scheduler)


def check_blocks(scheduler: Any) -> None:
    """Every block is held by as many calls as it counts, and those that nobody holds are free."""
    pool, manager = scheduler.kv_cache_manager.block_pool, scheduler.kv_cache_manager.coordinator.single_type_managers[0]
    held = Counter(block.block_id for blocks in manager.req_to_blocks.values() for block in blocks)
    assert all(block.ref_cnt == held[block.block_id] for block in pool.blocks if not block.is_null)
    assert pool.get_num_free_blocks() == len(pool.blocks) - 1 - len(held)


def check_work_conserving(engine: Engine, output: Any, num_preempted_before: int) -> None:
    """After a step is scheduled: no slot is left empty while a call could take it, unless its program is held back.

    Not looked at where the step itself has changed what fits: by preemptions, by prompts that can now be shared, or by
    having no tokens, or no state of the model runner, left for a call.
    """
    scheduler, parking, manager = engine.scheduler, engine.scheduler._parking, engine.scheduler.kv_cache_manager
    num_free_slots = parking._num_slots - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
    has_admitted = output.scheduled_new_reqs or output.scheduled_cached_reqs.resumed_req_ids
    is_full = num_free_slots <= 0 or output.total_num_scheduled_tokens == scheduler.max_num_scheduled_tokens
    num_states = len(scheduler.running) + len(parking.parked) + len(scheduler.kv_holding_waiting)
    is_full = is_full or (scheduler.use_v2_model_runner and num_states >= scheduler.max_num_running_reqs)
    if is_full or has_admitted or scheduler.num_preempted > num_preempted_before:
        return
    num_free = parking._blocks.num_free_blocks
    for call_id, request in parking.parked.items():
        if scheduler._is_held(call_id):
            continue
        needed = parking._blocks.blocks_needed(call_id)
        assert request.num_output_placeholders or needed > num_free, f"a slot is empty while {call_id} is parked"
    waiting = [r for r in scheduler.waiting if not scheduler._is_held(r.request_id)]
    waiting = [r for r in waiting if r.drop_stale_output or not r.num_stale_output_tokens]
    for request in waiting[:1]:
        needed = parking._blocks.blocks_needed(request.request_id) + manager.watermark_blocks
        assert needed > num_free, f"a slot is empty while {request.request_id} waits"
