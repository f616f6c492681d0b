"""An engine's KV cache: a fixed number of blocks, held by calls, shared by equal prefixes, reused least recently used first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentix.core.errors import InvalidTransition
from agentix.sim.content import Context
from agentix.sim.prefix_index import PrefixIndex


@dataclass(slots=True)
class _Holding:
    """What one call holds: its blocks in order of position; the first `num_keyed` are full and findable."""

    context: Context
    blocks: list[int] = field(default_factory=list)
    num_keyed: int = 0


class KVCache:
    """`num_blocks` blocks of `block_size` tokens.

    A block is free (nobody holds it) or held by one call or more. A full block that has been computed can be found by its
    contents, and stays so when it is free until it is given out for something else: that is the prefix cache. Free blocks are
    given out in the order in which they became free, a call's last block first, so that the beginnings of prompts stay
    longest. The cost of every method is proportional to the blocks it names. What is done block by block stands in plain
    loops and comprehensions: CPython has them faster than `map` over a list's own methods.

    `_states` has per block how many calls hold it or, if none does, minus the number of the chunk of `_free` in which it
    was freed. A block that was taken back from a chunk, as a hit, is still named there, but its state no longer agrees.
    """

    def __init__(self, num_blocks: int, block_size: int, *, prefix_cache: bool = True) -> None:
        if num_blocks < 1 or block_size < 1:
            raise InvalidTransition(f"a KV cache of {num_blocks} blocks of {block_size} tokens")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._prefix_cache = prefix_cache
        self._states = [-1] * num_blocks
        self._index = PrefixIndex(num_blocks)
        self._free: deque[tuple[int, list[int]]] = deque([(1, list(reversed(range(num_blocks))))])  # next block last
        self._num_chunks = 1  # that there have been
        self._num_listed = num_blocks  # blocks in the chunks, those taken back included
        self._num_free = num_blocks
        self._holdings: dict[str, _Holding] = {}
        self._last_hits: tuple[Context, list[int], int] | None = None  # a call that was found to fit is admitted next

    @property
    def num_free_blocks(self) -> int:
        """Blocks that nobody holds, findable or not."""
        return self._num_free

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` take."""
        return -(-num_tokens // self.block_size)

    def held_blocks(self, call_id: str) -> int:
        """Blocks that the call holds, shared ones included; 0 if it holds none."""
        holding = self._holdings.get(call_id)
        return len(holding.blocks) if holding is not None else 0

    def blocks_of(self, call_id: str) -> Sequence[int]:
        """The blocks that the call holds, in order of position."""
        return self._holding(call_id).blocks

    def num_holders(self, block: int) -> int:
        """How many calls hold the block."""
        return max(0, self._states[block])

    def blocks_needed(self, context: Context, num_tokens: int) -> int:
        """Free blocks that `admit` would use up: new ones, and found ones that nobody holds now."""
        hits, num_free = self._hits(context)
        return self._num_new(hits, num_tokens) + num_free

    def hit_tokens(self, context: Context) -> int:
        """Tokens of the prompt that need not be computed. Always less than all: the last one gives the first answer."""
        return len(self._hits(context)[0]) * self.block_size

    def admit(self, call_id: str, context: Context, num_tokens: int) -> int | None:
        """Let a call hold blocks for the first `num_tokens` of its context; returns how many of them are there already.

        None, and nothing changed, if there are not enough free blocks. Raises InvalidTransition if it holds blocks.
        """
        if call_id in self._holdings:
            raise InvalidTransition(f"call {call_id!r} holds KV blocks already")
        hits, num_free = self._hits(context)
        num_new = self._num_new(hits, num_tokens)
        if num_new + num_free > self._num_free:
            return None
        self._hold(hits, num_free)
        blocks = hits + self._take(num_new)
        self._holdings[call_id] = _Holding(context, blocks, len(hits))
        return len(hits) * self.block_size

    def grow(self, call_id: str, num_tokens: int) -> bool:
        """Let the call hold blocks for `num_tokens` in all. False, and nothing changed, if too few are free."""
        holding = self._holding(call_id)
        num_new = self.blocks_for(num_tokens) - len(holding.blocks)
        if num_new > self._num_free:
            return False
        if num_new == 1:
            holding.blocks.append(self._take_one())
        elif num_new > 0:
            holding.blocks.extend(self._take(num_new))
        return True

    def computed(self, call_id: str, context: Context, num_tokens: int) -> None:
        """The first `num_tokens` of `context`, which extends the one before, are there: make full blocks findable."""
        holding = self._holding(call_id)
        holding.context = context
        if not self._prefix_cache:
            return
        num_full = min(num_tokens // self.block_size, len(holding.blocks))
        if num_full <= holding.num_keyed:
            return
        self._last_hits = None
        self._index.add(holding.blocks[holding.num_keyed : num_full], context, self.block_size, holding.num_keyed)
        holding.num_keyed = num_full

    def release(self, call_id: str) -> None:
        """The call holds nothing any more; what it computed can be found until its blocks are given out again."""
        holding = self._holding(call_id)
        del self._holdings[call_id]
        self._last_hits = None
        states = self._states
        freed = [block for block in holding.blocks if states[block] == 1]
        if len(freed) < len(holding.blocks):
            for block in holding.blocks:
                states[block] -= 1
        if freed:
            self._num_chunks += 1
            self._num_free += len(freed)
            self._num_listed += len(freed)
            self._free.append((self._num_chunks, freed))
            state = -self._num_chunks
            for block in freed:
                states[block] = state
            if self._num_listed > 4 * self.num_blocks:
                self._forget_taken()

    def _num_new(self, hits: Sequence[int], num_tokens: int) -> int:
        return max(0, self.blocks_for(num_tokens) - len(hits))

    def _hits(self, context: Context) -> tuple[list[int], int]:
        """The blocks found for a prompt, and how many of them nobody holds."""
        if not self._prefix_cache or not context.num_tokens:
            return [], 0
        if self._last_hits is None or self._last_hits[0] is not context:
            hits = self._index.find(context.prefix(context.num_tokens - 1), self.block_size)
            states = self._states
            num_free = sum([states[block] < 0 for block in hits])
            self._last_hits = (context, hits, num_free)
        return self._last_hits[1:]

    def _hold(self, blocks: Sequence[int], num_free: int) -> None:
        self._last_hits = None
        self._num_free -= num_free
        states = self._states
        for block in blocks:
            num_holders = states[block]
            states[block] = num_holders + 1 if num_holders > 0 else 1

    def _take(self, num_blocks: int) -> list[int]:
        """Give out the blocks that have been free longest; what they held can no longer be found."""
        blocks: list[int] = []
        states = self._states
        while (num_missing := num_blocks - len(blocks)) > 0:
            number, chunk = self._free[0]
            part = chunk[-num_missing:]
            del chunk[-num_missing:]
            self._num_listed -= len(part)
            part.reverse()
            blocks += [block for block in part if states[block] == -number]
            if not chunk:
                self._free.popleft()
        self._num_free -= num_blocks
        for block in blocks:
            states[block] = 1
        self._index.forget(blocks)
        self._last_hits = None
        return blocks

    def _take_one(self) -> int:
        """The same for the commonest number by far: an answer has outgrown its blocks."""
        state, block = 0, 0
        while state == 0 or self._states[block] != state:
            number, chunk = self._free[0]
            state, block = -number, chunk.pop()
            self._num_listed -= 1
            if not chunk:
                self._free.popleft()
        self._num_free -= 1
        self._states[block] = 1
        self._index.forget_one(block)
        self._last_hits = None
        return block

    def _forget_taken(self) -> None:
        """Drop from the chunks the blocks that are no longer free, so that the chunks stay bounded."""
        states = self._states
        chunks = [(number, [block for block in chunk if states[block] == -number]) for number, chunk in self._free]
        self._free = deque((number, chunk) for number, chunk in chunks if chunk)
        self._num_listed = self._num_free

    def _holding(self, call_id: str) -> _Holding:
        try:
            return self._holdings[call_id]
        except KeyError:
            raise InvalidTransition(f"call {call_id!r} holds no KV blocks") from None

    def validate(self) -> None:
        """Check every invariant; raises InvalidTransition with the first that is broken. O(blocks + holdings)."""
        holders = [0] * self.num_blocks
        for holding in self._holdings.values():
            for block in holding.blocks:
                holders[block] += 1
        free = [block for number, chunk in self._free for block in chunk if self._states[block] == -number]
        problems = [
            (holders == [max(0, state) for state in self._states], "the calls' holdings and the blocks' counts differ"),
            (sorted(free) == [b for b, n in enumerate(holders) if n == 0], "a block is both free and held, or neither"),
            (len(free) == self._num_free, "the free blocks are miscounted"),
            (sum(len(chunk) for _, chunk in self._free) == self._num_listed, "the blocks of the chunks are miscounted"),
            (all(len(set(h.blocks)) == len(h.blocks) for h in self._holdings.values()), "a call holds a block twice"),
        ]
        messages = [message for holds, message in problems if not holds] + self._index.problems()
        if messages:
            raise InvalidTransition(f"KV cache is inconsistent: {messages[0]}")
