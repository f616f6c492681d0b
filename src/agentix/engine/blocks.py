"""vLLM's slots and KV blocks as the core sees them while it chooses a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from vllm.v1.request import RequestStatus

from agentix.core.program import CallRow
from agentix.core.room import BlockView, Room
from agentix.core.scheduler import Scheduler


class EngineBlocks:
    """A `core.room.BlockView` over vLLM's scheduler. Reads alone; counts as vLLM itself does before it allocates."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._manager = scheduler.kv_cache_manager
        self._pool = self._manager.block_pool

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no call holds."""
        return int(self._pool.get_num_free_blocks())

    def blocks_needed(self, call_id: str) -> int:
        """Blocks for all tokens known of the call, beyond those it holds or shares with a call that holds them.

        vLLM may compute a long prompt chunk by chunk and take blocks as it goes; asking for all at once keeps a call from
        entering that would soon have to leave.
        """
        request, manager = self._scheduler.requests[call_id], self._manager
        num_tokens = min(
            request.num_tokens + request.num_output_placeholders,
            request.num_prompt_tokens + request.max_tokens - 1,  # the last token is never computed on
            self._scheduler.max_model_len,
        )
        found, num_found = manager.empty_kv_cache_blocks, 0
        is_holder = any(manager.coordinator.get_blocks(call_id))
        if not is_holder:
            found, num_found, _ = manager.get_computed_blocks(request)
        num_computed_tokens = request.num_computed_tokens + num_found
        num_blocks = manager.coordinator.get_num_blocks_to_allocate(
            request_id=call_id,
            num_tokens=num_tokens,
            new_computed_blocks=found.blocks,
            num_encoder_tokens=0,
            total_computed_tokens=num_computed_tokens,
            num_local_computed_tokens=num_computed_tokens,
            num_tokens_main_model=num_tokens,
            apply_admission_cap=not is_holder,
            prefill_end=max(request.num_prompt_tokens, request.num_tokens - 1),
        )
        return int(num_blocks)

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds, of all KV groups, without vLLM's placeholder."""
        groups = self._manager.coordinator.get_blocks(call_id)
        return [block.block_id for group in groups for block in group if not block.is_null]

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        return int(self._pool.blocks[block].ref_cnt)


class UpperBound:
    """The blocks that calls need, with those of `decoding` calls not counted one by one: a token needs at most a block a group.

    A batch that fits by this count fits by the exact one, and comes out the same.
    """

    def __init__(self, exact: EngineBlocks, decoding: Set[str], num_groups: int) -> None:
        self.num_free_blocks = exact.num_free_blocks
        self.blocks_of = exact.blocks_of
        self.num_holders = exact.num_holders
        self._exact = exact
        self._decoding = decoding
        self._num_groups = num_groups

    def blocks_needed(self, call_id: str) -> int:
        """No fewer blocks than the call's next step uses up."""
        return self._num_groups if call_id in self._decoding else self._exact.blocks_needed(call_id)


class EngineRoom(Room):
    """A `Room` in vLLM, where calls that stay may still grow, and where some cannot run now, whatever the room.

    `is_short`: blocks were too few for some call. `is_expecting`: a call may become ready without an event (its grammar
    is compiled, its KV arrives), so that the choice holds for this step alone.
    """

    def __init__(
        self, scheduler: Any, blocks: BlockView, core: Scheduler, num_slots: int, *, staying: Set[str], holders: Iterable[str]
    ) -> None:
        super().__init__(blocks, core, num_slots, staying=staying, holders=holders)
        self._scheduler = scheduler
        self._has_taken = bool(staying)
        self._has_admitted = False
        self._watermark: int = scheduler.kv_cache_manager.watermark_blocks
        self.is_short = False
        self.is_expecting = False
        for call_id in sorted(staying, key=core.key):  # vLLM serves those that run before it admits others
            needed = blocks.blocks_needed(call_id)
            if needed > self._num_free and not self._find_victims(call_id, needed):
                self.is_short = True
            self._num_free = max(0, self._num_free - needed)

    def take(self, call: CallRow) -> bool:
        """Reserve a slot and blocks; calls that cannot run now need neither."""
        if call.call_id in self._staying:
            return True
        is_admission = False
        if not call.running:
            if self.is_blocked(call.call_id):
                return True
            is_admission = self._scheduler.requests[call.call_id].status != RequestStatus.RUNNING
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

    def is_blocked(self, call_id: str) -> bool:
        """Whether vLLM would pass by the call in this step."""
        request = self._scheduler.requests[call_id]
        match request.status:
            case RequestStatus.RUNNING:
                return False
            case RequestStatus.WAITING_FOR_STREAMING_REQ:
                return True
            case RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
                grammar = request.structured_output_request
                is_blocked = grammar is None or grammar.grammar is None
            case RequestStatus.WAITING_FOR_REMOTE_KVS:
                is_blocked = call_id not in self._scheduler.finished_recving_kv_req_ids
            case _:  # output that was in flight when the call lost its blocks has to come back first
                is_blocked = request.num_stale_output_tokens > 0 and not request.drop_stale_output
        self.is_expecting = self.is_expecting or is_blocked
        return is_blocked
