"""Slots and KV blocks of an engine: the answer to "does this call still fit?" while a batch is chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from typing import Protocol

from agentix.core.program import CallRow
from agentix.core.scheduler import Scheduler


class BlockView(Protocol):
    """What an engine's shell knows of its KV blocks at the moment of a choice."""

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no call holds."""
        ...

    def blocks_needed(self, call_id: str) -> int:
        """Free blocks that the call's next step would use up: new ones, and cached ones that nobody holds now."""
        ...

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds."""
        ...

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        ...


class Room:
    """A budget of slots and KV blocks for one choice of a batch.

    A call that is taken may use the free blocks and, if they are too few, those of calls that stand after it in the
    order, worst first: the `victims` among `holders`, whose blocks the engine takes. In first-come-first-served order only
    a call that came later is ever a victim. Calls that are `staying` have their slots and blocks and keep them.
    `is_short` says whether the free blocks were ever too few; `has_refused` whether a call without blocks was left out since
    it is not worth those of others (`Scheduler.is_worth`), where `block_cost_s` is the time to compute again what a block
    holds. What the prefix cache may give back is not taken off: while blocks are short others take it first.
    `num_reserved_blocks` are free and not to be given away.
    """

    def __init__(
        self,
        blocks: BlockView,
        core: Scheduler,
        num_slots: int,
        *,
        staying: Set[str],
        holders: Collection[str],
        block_cost_s: float = 0.0,
        num_reserved_blocks: int = 0,
    ) -> None:
        self.victims: list[str] = []
        self.is_short = self.has_refused = False
        self._block_cost_s = block_cost_s
        self._blocks = blocks
        self._core = core
        self._staying = staying
        self._num_slots = num_slots - len(staying)
        self._num_free = blocks.num_free_blocks - num_reserved_blocks
        self._holders = holders
        self._by_place: list[str] | None = None  # the holders in order, once that is needed
        self._gone: dict[int, int] = {}  # holders that each block loses with the victims

    def take(self, call: CallRow) -> bool:
        """Reserve a slot and the blocks for the call's next step; False if it does not fit."""
        if call.call_id in self._staying:
            return True
        if self._num_slots <= 0 or (self.victims and call.call_id in self.victims):
            return False
        needed = self._blocks.blocks_needed(call.call_id)
        if needed > self._num_free and not self._find_victims(call.call_id, needed):
            return False
        self._num_free -= needed
        self._num_slots -= 1
        return True

    def take_holders(self, call_ids: Iterable[str]) -> list[str]:
        """Those that may go on with the blocks they hold, best first, although a call before them waits for blocks."""
        calls = self._core.table.calls
        passes = self._core.holding.passes
        return [c for c in sorted(call_ids, key=self._core.key) if passes(calls[c]) and self.take(calls[c])]

    def _find_victims(self, call_id: str, needed: int) -> bool:
        """Add the worst holders after the call to the victims until the blocks suffice; none if they never do."""
        self.is_short = True
        if self._by_place is None:
            self._by_place = sorted(self._holders, key=self._core.key)
        holders = self._by_place
        place, num_free, gone = self._core.key(call_id), self._num_free, self._gone.copy()
        left = len(holders)
        while num_free < needed and left and self._core.key(holders[left - 1]) > place:
            left -= 1
            for block in self._blocks.blocks_of(holders[left]):
                gone[block] = num_gone = gone.get(block, 0) + 1
                num_free += num_gone == self._blocks.num_holders(block)
        if num_free < needed:
            return False
        cost_s = (num_free - self._num_free) * self._block_cost_s
        is_new = call_id not in self._staying and call_id not in self._holders
        if is_new and not self._core.is_worth(call_id, holders[left:], cost_s):
            self.has_refused = True
            return False
        self.victims.extend(reversed(holders[left:]))
        del holders[left:]
        self._num_free, self._gone = num_free, gone
        return True
