"""What fits a batch of vLLM: a quick answer while blocks are plentiful, and the exact one."""

from __future__ import annotations

from collections.abc import Container, Sequence, Set
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a choice of a batch changes.

    leaving   running calls that stand aside, best first
    coming    waiting calls that shall run, best first; some may turn out not to be ready
    overdue   running calls that stay because they have not yielded, although others were chosen
    victims   calls that lose their blocks
    is_short  blocks were too few for some call
    """

    leaving: Sequence[str]
    coming: Sequence[str]
    overdue: Set[str]
    victims: Sequence[str] = ()
    is_short: bool = False


def change_quickly(
    gate: Gate, blocks: EngineBlocks, core: Scheduler, num_slots: int, *, staying: Set[str], parked: Container[str]
) -> Change | None:
    """The change if blocks suffice by an upper bound, without a look at the calls that go on running; None if they may not.

    The bound: the next token of a call that holds its others needs a block per KV group at most. A batch that fits by it
    fits by the exact count and comes out the same. The best that wait take the free slots, and then those of the worst that
    run, as long as they stand before them; what is left are the first of the order, as many as there are slots.
    """
    leaving: list[str] = []
    coming: list[str] = []
    num_free_slots, num_needed = num_slots - len(core.running), 0
    movable = (call_id for call_id in core.running_worst_first() if call_id not in staying)
    worst, refused = next(movable, None), None
    for call_id in core.contenders(None):
        if num_free_slots <= 0 and (worst is None or core.key(worst) < core.key(call_id)):
            refused = call_id
            break
        if call_id not in parked and gate.is_shut(call_id):
            continue
        if num_free_slots > 0:
            num_free_slots -= 1
        elif worst is not None:
            leaving.append(worst)
            worst = next(movable, None)
        coming.append(call_id)
        num_needed += blocks.num_groups if call_id in parked else blocks.blocks_needed(call_id)
    num_going_on = len(core.running) - len(staying) - len(leaving)
    num_needed += num_going_on * blocks.num_groups + sum(map(blocks.most_needed, staying))
    if num_needed + blocks.watermark_blocks > blocks.num_free_blocks:
        return None
    left_out = min((core.key(call_id) for call_id in (*leaving[-1:], refused) if call_id is not None), default=None)
    overdue = {call_id for call_id in staying if left_out is not None and left_out < core.key(call_id)}
    return Change(leaving=leaving[::-1], coming=coming, overdue=overdue)


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
