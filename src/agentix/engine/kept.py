"""KV of a program between its calls: what the prefix cache keeps for whom, by the core's policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentix.core.scheduler import Scheduler
from agentix.engine.reuse import ReuseOrder

MAX_KEPT_SHARE = 0.5  # of all blocks; the rest is the prefix cache of everybody else


class KeptKV:
    """Tells vLLM's queue of free blocks what happens to programs, so that it gives out blocks in their order.

    Needs vLLM's prefix cache. With a KV connector vLLM's own queue stays: connectors read it, and bring back what it loses. It
    also stays where the policy ignores programs: under FCFS the engine is stock vLLM in every respect.
    """

    def __init__(self, scheduler: Any, core: Scheduler) -> None:
        self.order: ReuseOrder | None = None
        self._core = core
        manager = scheduler.kv_cache_manager
        if not manager.enable_caching or scheduler.connector is not None or core.policy.ignores_programs:
            return
        self._pool, self._coordinator = manager.block_pool, manager.coordinator
        free = self._pool.free_block_queue.get_all_free_blocks()
        self.order = self._pool.free_block_queue = ReuseOrder(free, max_kept_blocks=int(MAX_KEPT_SHARE * len(free)))

    def findable_blocks(self, call_id: str) -> list[Any]:
        """The blocks that the call holds and others can find, of all KV groups, in order of position."""
        if self.order is None:
            return []
        groups = self._coordinator.get_blocks(call_id)
        return [block for group in groups for block in group if block.block_hash is not None and block.pool is self._pool]

    def call_over(self, program_id: str | None, blocks: Sequence[Any], *, has_finished: bool, now: float) -> None:
        """A call is over, in the core too, and has given back these blocks; None: nobody knows of which program it was."""
        if self.order is None:
            return
        self.order.note_use(program_id, blocks)
        if program_id is None:
            return
        row = self._core.table.rows.get(program_id)
        if row is None:
            self.order.program_over(program_id)
        elif has_finished:
            retention_s = self._core.policy.retention_s(row, now)
            if retention_s > 0:
                self.order.keep(program_id, blocks, now + retention_s)

    def program_over(self, program_id: str) -> None:
        """The program has ended; what its active calls still hold is not free yet."""
        if self.order is not None and program_id not in self._core.table.rows:
            self.order.program_over(program_id)

    def call_started(self, program_id: str) -> None:
        """A call of the program has got its blocks, those kept for it among them."""
        if self.order is not None:
            self.order.let_go(program_id)

    def let_go_until(self, now: float) -> None:
        """Let go of what was to be kept until `now`."""
        if self.order is not None:
            self.order.let_go_until(now)

    def forget(self) -> None:
        """The prefix cache has been emptied."""
        if self.order is not None:
            self.order.forget()
