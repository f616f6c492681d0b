"""vLLM's KV blocks as the core sees them while it chooses a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class EngineBlocks:
    """A `core.room.BlockView` over vLLM's scheduler. Reads alone; costs what vLLM's own look-ups cost."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._pool = scheduler.kv_cache_manager.block_pool

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no call holds."""
        return int(self._pool.get_num_free_blocks())

    def blocks_needed(self, call_id: str) -> int:
        """Blocks for all tokens known of the call, beyond those it holds or shares with a call that holds them.

        vLLM admits a long prompt chunk by chunk and takes blocks as it goes; asking for all at once keeps a call from
        entering that would soon have to leave.
        """
        request, manager = self._scheduler.requests[call_id], self._scheduler.kv_cache_manager
        num_tokens = request.num_tokens + request.num_output_placeholders
        held = manager.get_block_ids(call_id)
        num_blocks = -(-num_tokens // self._scheduler.block_size) * max(1, len(held))
        if any(held):
            return int(max(0, num_blocks - sum(map(len, held))))
        found = manager.get_computed_blocks(request)[0].blocks
        return int(num_blocks - sum(block.ref_cnt > 0 for group in found for block in group))

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds, of all KV groups."""
        return [block for group in self._scheduler.kv_cache_manager.get_block_ids(call_id) for block in group]

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        return int(self._pool.blocks[block].ref_cnt)
