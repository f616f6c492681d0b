"""The KV of an engine's calls: who holds blocks, what giving them up costs, what is kept for a program's next call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from agentix.core.errors import ConfigError
from agentix.sim.call import SimCall
from agentix.sim.config import CapacityError, EngineConfig, EngineCounts
from agentix.sim.content import Contents
from agentix.sim.kv_cache import KVCache


class SwapCost(Protocol):
    """How long does it take to move a call's KV to host memory, or back?"""

    def __call__(self, *, num_tokens: int, num_blocks: int, bulk: bool) -> float:
        """Seconds, one way. See `agentix.cost.swap_s`."""
        ...


class Memory:
    """The KV blocks of one engine's calls, and of calls that are over but whose program is expected back.

    `calls` are the engine's, by id. `transfer_s` is the time of the swaps since it was last set to 0: the next step waits
    for them.
    """

    def __init__(
        self,
        config: EngineConfig,
        counts: EngineCounts,
        contents: Contents,
        swap_cost: SwapCost | None,
        calls: Mapping[str, SimCall],
    ) -> None:
        if config.preemption == "swap" and swap_cost is None:
            raise ConfigError("preemption by swap needs the cost of a transfer, which cards of device and model give")
        self.cache = KVCache(config.num_blocks, config.block_size, prefix_cache=config.prefix_cache)
        self.transfer_s = 0.0
        self._config = config
        self._counts = counts
        self._contents = contents
        self._swap_cost = swap_cost
        self._calls = calls
        self._kept: dict[str, tuple[float, str]] = {}  # by program: until when the blocks of which call stay held

    def keeps(self, program_id: str) -> bool:
        """Whether blocks are kept for the program's next call."""
        return program_id in self._kept

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no call holds; see `core.room.BlockView` for this and the next three."""
        return self.cache.num_free_blocks

    def blocks_needed(self, call_id: str) -> int:
        """Free blocks for all known tokens of the call."""
        call = self._calls[call_id]
        num_known = call.prompt_tokens + call.num_output
        if num_known <= call.num_room:
            return 0
        if call.num_room:
            return self.cache.blocks_for(num_known) - self.cache.held_blocks(call_id)
        return self.cache.blocks_needed(call.prompt, num_known)

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds."""
        return self.cache.blocks_of(call_id)

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        return self.cache.num_holders(block)

    def holds(self, call: SimCall) -> bool:
        """Whether the call has blocks on the device."""
        return self.cache.held_blocks(call.call_id) > 0

    def admit(self, call: SimCall) -> bool:
        """Blocks for all known tokens of a call that has none; False if too few are free.

        What host memory holds of it comes back, the prefix cache gives what it has, the rest is to be computed.
        """
        context = call.known(self._contents)
        found = self.cache.admit(call.call_id, context, call.num_known)
        if found is None:
            return False
        self.let_go_of_program(call.program_id)
        call.num_computed = found
        call.num_room = self.cache.held_blocks(call.call_id) * self._config.block_size
        if call.cached_tokens is None:
            call.cached_tokens = min(found, call.prompt_tokens)
            self._counts.prompt_tokens += call.prompt_tokens
            self._counts.cached_tokens += call.cached_tokens
        if call.num_swapped > found:
            self._transfer(call, call.num_swapped - found)
            call.num_computed = call.num_swapped
            self.cache.computed(call.call_id, context, call.num_computed)
        call.num_swapped = 0
        # Other calls may count on the blocks of its first step as soon as that is scheduled, as in vLLM.
        self.cache.computed(call.call_id, context, min(call.num_known, call.num_computed + self._config.max_batch_tokens))
        return True

    def grow(self, call: SimCall) -> bool:
        """Blocks for all known tokens of a call that holds too few; False if too few are free."""
        if not self.cache.grow(call.call_id, call.num_known):
            return False
        call.num_room = self.cache.held_blocks(call.call_id) * self._config.block_size
        return True

    def catch_up(self, call: SimCall, num_tokens: int) -> None:
        """Blocks for what several steps played as one compute, as those steps would have taken them one by one."""
        if num_tokens <= call.num_room:
            return
        if not self.cache.grow(call.call_id, num_tokens):
            raise CapacityError(f"call {call.call_id!r} computed more tokens than there are blocks for")
        call.num_room = self.cache.held_blocks(call.call_id) * self._config.block_size

    def note_computed(self, call: SimCall) -> None:
        """Let others find what is computed of the call.

        Asked after each step of a prompt; what an answer adds is noted when the call ends or has to go, since nobody else's
        prompt can hold an answer that is not there yet.
        """
        self.cache.computed(call.call_id, call.known(self._contents), call.num_computed)

    def evict(self, call: SimCall) -> None:
        """Take the call's blocks, if it has any; its KV goes to host memory where the engine swaps, else it is lost."""
        if not self.holds(call):
            return
        self._counts.num_evictions += 1
        if self._config.preemption == "swap":
            self._transfer(call, call.num_computed)
            call.num_swapped = call.num_computed
        else:
            self._counts.recomputed_tokens += call.num_computed
        self.note_computed(call)
        self.cache.release(call.call_id)
        call.num_computed = call.num_room = 0

    def _transfer(self, call: SimCall, num_tokens: int) -> None:
        if num_tokens == 0 or self._swap_cost is None:
            return
        num_blocks = self.cache.blocks_for(num_tokens)
        swap_s = self._swap_cost(
            num_tokens=num_blocks * self._config.block_size, num_blocks=num_blocks, bulk=self._config.bulk_swap
        )
        self._counts.num_swaps += 1
        self._counts.swapped_tokens += num_tokens
        self._counts.swap_s += swap_s
        self.transfer_s += swap_s
        call.swap_s += swap_s

    def finish(self, call: SimCall, keep_until_s: float | None) -> None:
        """The call is over. Its blocks are free, or kept until that time for the next call of its program."""
        self.note_computed(call)
        if keep_until_s is None:
            self.cache.release(call.call_id)
        else:
            self.let_go_of_program(call.program_id)
            self._kept[call.program_id] = (keep_until_s, call.call_id)

    @property
    def next_expiry_s(self) -> float:
        """When blocks that are kept for a program are free next; inf if none are."""
        return min((until_s for until_s, _ in self._kept.values()), default=float("inf"))

    def let_go(self, now: float) -> bool:
        """Free what was kept until `now`; returns whether there was any."""
        expired = [program_id for program_id, (until_s, _) in self._kept.items() if until_s <= now]
        for program_id in expired:
            self.let_go_of_program(program_id)
        return bool(expired)

    def let_go_of_program(self, program_id: str) -> None:
        """Free what is kept for the program, if anything is."""
        kept = self._kept.pop(program_id, None)
        if kept is not None:
            self.cache.release(kept[1])

    def let_go_for(self, call_ids: Collection[str]) -> None:
        """Free as much of what is kept as these calls, which run, need for their next tokens."""
        while self._kept and sum(map(self.blocks_needed, call_ids)) > self.num_free_blocks:
            self.let_go_of_first()

    def let_go_of_first(self) -> bool:
        """Free what would be kept the shortest: blocks are needed now. False if nothing is kept."""
        if not self._kept:
            return False
        self.let_go_of_program(min(self._kept, key=self._kept.__getitem__))
        return True
