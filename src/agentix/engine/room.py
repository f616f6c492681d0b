"""What fits a batch of vLLM: two answers to the core's question, a quick one while blocks are plentiful and the exact one."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from vllm.v1.request import RequestStatus

from agentix.core.program import CallRow
from agentix.core.room import Room
from agentix.core.scheduler import Scheduler
from agentix.engine.blocks import EngineBlocks


class Gate:
    """Which waiting calls could not run now, whatever the room.

    `is_expecting`: one that was asked about may become ready without an event (its grammar is compiled, its KV arrives), so
    that a choice holds for this step alone.
    """

    def __init__(self, scheduler: Any) -> None:
        self.is_expecting = False
        self._scheduler = scheduler

    def is_shut(self, call_id: str) -> bool:
        """Whether vLLM would pass by the call in this step."""
        request = self._scheduler.requests[call_id]
        match request.status:
            case RequestStatus.RUNNING:
                return False
            case RequestStatus.WAITING_FOR_STREAMING_REQ:  # until its client sends the next piece, which is an event
                return True
            case RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
                output = request.structured_output_request
                is_shut = output is None or output.grammar is None
            case RequestStatus.WAITING_FOR_REMOTE_KVS:
                is_shut = call_id not in self._scheduler.finished_recving_kv_req_ids
            case _:  # output that was in flight when the call lost its blocks has to come back first
                is_shut = request.num_stale_output_tokens > 0 and not request.drop_stale_output
        self.is_expecting = self.is_expecting or is_shut
        return is_shut


class QuickRoom:
    """Slots, and blocks by an upper bound: the next token of a call that holds its others needs a block per KV group at most.

    A batch that fits by this count fits by the exact one and comes out the same; if not, `is_short` says so.
    """

    def __init__(
        self, gate: Gate, blocks: EngineBlocks, num_slots: int, *, staying: Set[str], parked: Set[str], num_groups: int
    ) -> None:
        self._gate = gate
        self._blocks = blocks
        self._staying = staying
        self._parked = parked
        self._num_groups = num_groups
        self._num_slots = num_slots - len(staying)
        needed = sum(blocks.blocks_needed(call_id) for call_id in staying)
        self._num_free = blocks.num_free_blocks - needed - blocks.watermark_blocks
        self.is_short = self._num_free < 0

    def take(self, call: CallRow) -> bool:
        """Reserve a slot and blocks; calls that cannot run now need neither."""
        call_id = call.call_id
        if call_id in self._staying:
            return True
        if self._num_slots <= 0:
            return False
        if call.running or call_id in self._parked:  # the commonest by far
            needed = self._num_groups
        elif self._gate.is_shut(call_id):
            return True
        else:
            needed = self._blocks.blocks_needed(call_id)
        if needed > self._num_free:
            self.is_short = True
            return False
        self._num_free -= needed
        self._num_slots -= 1
        return True


class EngineRoom(Room):
    """The core's `Room` in vLLM: calls that stay may still grow, and calls are admitted only above vLLM's watermark.

    `is_short`: blocks were too few for some call.
    """

    def __init__(
        self,
        gate: Gate,
        blocks: EngineBlocks,
        core: Scheduler,
        num_slots: int,
        *,
        staying: Set[str],
        holders: Set[str],
        block_cost_s: float,
    ) -> None:
        super().__init__(blocks, core, num_slots, staying=staying, holders=holders, block_cost_s=block_cost_s)
        self._gate = gate
        self._held = staying | holders
        self._watermark = blocks.watermark_blocks
        self._has_taken = bool(staying)
        self._has_admitted = False
        self.is_short = False
        for call_id in sorted(staying, key=core.key):  # vLLM serves those that run before it admits others
            needed = blocks.blocks_needed(call_id)
            if needed > self._num_free and not self._find_victims(call_id, needed):
                self.is_short = True
            self._num_free = max(0, self._num_free - needed)

    def take(self, call: CallRow) -> bool:
        """Reserve a slot and blocks; calls that cannot run now need neither."""
        if call.call_id in self._staying:
            return True
        is_admission = call.call_id not in self._held
        if is_admission and self._gate.is_shut(call.call_id):
            return True
        has_slot, margin = self._num_slots > 0, self._margin(is_admission)
        self._num_free -= margin
        if not super().take(call):
            self._num_free += margin
            self.is_short = self.is_short or has_slot
            return False
        self._watermark -= margin
        self._has_taken, self._has_admitted = True, self._has_admitted or is_admission
        return True

    def _margin(self, is_admission: bool) -> int:
        """Blocks that vLLM keeps free when it admits calls beside others that run; reserved once."""
        return self._watermark if self._has_taken and (is_admission or self._has_admitted) else 0
