"""vLLM's KV blocks as the core sees them while it chooses a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def kv_capacity_tokens(scheduler: Any) -> int:
    """Tokens whose KV the engine holds; of its blocks one is a placeholder, and each KV group needs its own for a token."""
    num_blocks = scheduler.vllm_config.cache_config.num_gpu_blocks - 1
    return int(num_blocks // scheduler.kv_cache_manager.num_kv_cache_groups * scheduler.block_size)


class EngineBlocks:
    """A `core.room.BlockView` over vLLM's scheduler. Reads alone; counts as vLLM itself does before it allocates."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._manager = scheduler.kv_cache_manager
        self._pool = self._manager.block_pool
        self.num_groups: int = self._manager.num_kv_cache_groups
        self.watermark_blocks: int = self._manager.watermark_blocks  # kept free when calls are admitted beside others

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

    def most_needed(self, call_id: str) -> int:
        """An upper bound of `blocks_needed` for a call that runs, at little cost unless it is in the middle of its prompt.

        Once the last of its prompt is scheduled it holds blocks for all tokens but the next.
        """
        is_in_prompt = self._scheduler.requests[call_id].is_prefill_chunk
        return self.blocks_needed(call_id) if is_in_prompt else self.num_groups

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds, of all KV groups, without vLLM's placeholder."""
        groups = self._manager.coordinator.get_blocks(call_id)
        return [block.block_id for group in groups for block in group if not block.is_null]

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        return int(self._pool.blocks[block].ref_cnt)
