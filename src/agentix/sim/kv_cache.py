"""An engine's KV cache: a fixed number of blocks, held by calls, shared by equal prefixes, reused least recently used first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentix.core.errors import InvalidTransition
from agentix.sim.content import Context


@dataclass(slots=True)
class _Holding:
    """What one call holds: its blocks in order of position; the first `num_keyed` are full and findable."""

    context: Context
    blocks: list[int] = field(default_factory=list)
    num_keyed: int = 0


class KVCache:
    """`num_blocks` blocks of `block_size` tokens.

    A block is free (nobody holds it) or held by one call or more. A full block that has been computed can be found by its
    key, and stays so when it is free until it is given out for something else: that is the prefix cache. Free blocks are
    given out in the order in which they became free, a call's last block first, so that the beginnings of prompts stay
    longest. The cost of every method is proportional to the blocks it names.
    """

    def __init__(self, num_blocks: int, block_size: int, *, prefix_cache: bool = True) -> None:
        if num_blocks < 1 or block_size < 1:
            raise InvalidTransition(f"a KV cache of {num_blocks} blocks of {block_size} tokens")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._prefix_cache = prefix_cache
        self._holders = [0] * num_blocks
        self._keys: list[int | None] = [None] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._by_key: dict[int, int] = {}
        self._doubles: dict[int, list[int]] = {}  # keys that several blocks have
        self._holdings: dict[str, _Holding] = {}

    @property
    def num_free_blocks(self) -> int:
        """Blocks that nobody holds, findable or not."""
        return len(self._free)

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
        return self._holders[block]

    def blocks_needed(self, context: Context, num_tokens: int) -> int:
        """Free blocks that `admit` would use up: new ones, and found ones that nobody holds now."""
        return self._num_needed(self._hit_blocks(context), num_tokens)

    def hit_tokens(self, context: Context) -> int:
        """Tokens of the prompt that need not be computed. Always less than all: the last one gives the first answer."""
        return len(self._hit_blocks(context)) * self.block_size

    def admit(self, call_id: str, context: Context, num_tokens: int) -> int | None:
        """Let a call hold blocks for the first `num_tokens` of its context; returns how many of them are there already.

        None, and nothing changed, if there are not enough free blocks. Raises InvalidTransition if it holds blocks.
        """
        if call_id in self._holdings:
            raise InvalidTransition(f"call {call_id!r} holds KV blocks already")
        hits = self._hit_blocks(context)
        if self._num_needed(hits, num_tokens) > len(self._free):
            return None
        num_new = max(0, self.blocks_for(num_tokens) - len(hits))
        self._hold(hits)
        blocks = hits + self._take(num_new)
        self._holdings[call_id] = _Holding(context, blocks, len(hits))
        return len(hits) * self.block_size

    def grow(self, call_id: str, num_tokens: int) -> bool:
        """Let the call hold blocks for `num_tokens` in all. False, and nothing changed, if too few are free."""
        holding = self._holding(call_id)
        num_new = self.blocks_for(num_tokens) - len(holding.blocks)
        if num_new > len(self._free):
            return False
        if num_new > 0:
            holding.blocks.extend(self._take(num_new))
        return True

    def computed(self, call_id: str, context: Context, num_tokens: int) -> None:
        """The first `num_tokens` of `context`, which extends the one before, are in the call's blocks: make full ones findable.

        Two calls may compute the same prefix side by side; their blocks stay doubles of one key, either of which is found.
        """
        holding = self._holding(call_id)
        holding.context = context
        if not self._prefix_cache:
            return
        num_full = min(num_tokens // self.block_size, len(holding.blocks))
        if num_full <= holding.num_keyed:
            return
        key_of, find = self._keys, self._by_key.setdefault
        keys = context.prefix(num_full * self.block_size).block_keys(self.block_size, holding.num_keyed)
        for block, key in zip(holding.blocks[holding.num_keyed : num_full], keys, strict=True):
            key_of[block] = key
            found = find(key, block)
            if found != block:
                self._doubles.setdefault(key, [found]).append(block)
        holding.num_keyed = num_full

    def release(self, call_id: str) -> None:
        """The call holds nothing any more; what it computed can be found until its blocks are given out again."""
        holding = self._holding(call_id)
        del self._holdings[call_id]
        holders, free = self._holders, self._free
        for block in reversed(holding.blocks):
            if holders[block] == 1:
                holders[block] = 0
                free[block] = None
            else:
                holders[block] -= 1

    def _num_needed(self, hits: Sequence[int], num_tokens: int) -> int:
        num_new = max(0, self.blocks_for(num_tokens) - len(hits))
        return num_new + list(map(self._holders.__getitem__, hits)).count(0)

    def _hit_blocks(self, context: Context) -> list[int]:
        if not self._prefix_cache or not context.num_tokens:
            return []
        hits: list[int] = []
        for keys in context.prefix(context.num_tokens - 1).key_ranges(self.block_size):
            found = list(map(self._by_key.get, keys))
            if None in found:
                hits += found[: found.index(None)]  # type: ignore[arg-type]
                break
            hits += found  # type: ignore[arg-type]
        return hits

    def _hold(self, blocks: Sequence[int]) -> None:
        holders, free = self._holders, self._free
        for block in blocks:
            if holders[block] == 0:
                del free[block]
            holders[block] += 1

    def _take(self, num_blocks: int) -> list[int]:
        """Give out the blocks that have been free longest; what they held can no longer be found."""
        popitem, holders, keys, by_key, doubles = self._free.popitem, self._holders, self._keys, self._by_key, self._doubles
        blocks: list[int] = []
        for _ in range(num_blocks):
            block, _ = popitem(last=False)
            blocks.append(block)
            holders[block] = 1
            key = keys[block]
            if key is not None:
                keys[block] = None
                if key in doubles:
                    self._forget_double(key, block)
                else:
                    del by_key[key]
        return blocks

    def _forget_double(self, key: int, block: int) -> None:
        """The block leaves those of its key, which another of them now answers for."""
        blocks = self._doubles[key]
        blocks.remove(block)
        self._by_key[key] = blocks[0]
        if len(blocks) == 1:
            del self._doubles[key]

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
        problems = [
            (holders == self._holders, "the calls' holdings and the blocks' counts differ"),
            (all((b in self._free) == (n == 0) for b, n in enumerate(holders)), "a block is both free and held, or neither"),
            (all(len(set(h.blocks)) == len(h.blocks) for h in self._holdings.values()), "a call holds a block twice"),
            (all(self._keys[b] == k for k, b in self._by_key.items()), "a key leads to a block of another key"),
            (
                all(
                    b == self._by_key.get(k) or b in self._doubles.get(k, []) for b, k in enumerate(self._keys) if k is not None
                ),
                "a block has a key that does not lead to it",
            ),
            (
                all(len(d) > 1 and all(self._keys[b] == k for b in d) for k, d in self._doubles.items()),
                "a double of another key, or of none",
            ),
        ]
        for holds, message in problems:
            if not holds:
                raise InvalidTransition(f"KV cache is inconsistent: {message}")
