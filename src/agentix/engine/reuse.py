"""The order in which vLLM gives out its free KV blocks: what no program will ask for again first, what is kept for one last."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue


@dataclass(slots=True)
class _Kept:
    """What is kept for a program: blocks of its last call by id, in order of position, and those of them to be given out."""

    until_s: float
    blocks: dict[int, Any]
    free: Any


class ReuseOrder(FreeKVCacheBlockQueue):  # type: ignore[misc]  # vLLM is not typed for strict checking
    """vLLM's queue of free blocks, in the order of programs. Blocks are given out in this order:

    1. blocks that only a program which is over has used, its latest first;
    2. as in vLLM: blocks that nobody can find, then the others, those that were freed first before those freed later;
    3. blocks that are kept for programs, what would be kept the shortest first and of that the last block first;
    4. blocks that are kept for several programs.

    So what is kept is free all the while: it counts as free, nobody waits for it, and it goes, block by block, only when
    every other free block has gone. Invariant: a free block stands in exactly one list, in 3 if one program keeps it and
    in 4 if several do or somebody has used it meanwhile. Every method costs as much as the blocks that it names, and
    `keep` a list insertion. `max_kept_blocks` bounds what is kept; what is remembered is bounded by the blocks there are.
    """

    def __init__(self, blocks: Sequence[Any], *, max_kept_blocks: int) -> None:
        super().__init__(blocks)
        self._max_kept = max_kept_blocks
        self._kept: dict[str, _Kept] = {}
        self._by_time: list[tuple[float, str]] = []  # programs that something is kept for, the first to let go of first
        self._num_keepers: dict[int, int] = {}  # by block that is kept, free or not: programs that it is kept for
        self._common = FreeKVCacheBlockQueue([])
        self._kept_in: dict[int, Any] = {}  # by free block that is kept: the list it stands in
        self._only_user: dict[int, str | None] = {}  # by block with findable KV: the program that used it; None: several
        self._own: dict[str, dict[int, Any]] = {}  # the inverse, for programs

    def keeps(self, program_id: str) -> bool:
        """Whether blocks are kept for the program's next call."""
        return program_id in self._kept

    @property
    def num_kept_blocks(self) -> int:
        """Blocks that are kept, those in use included."""
        return len(self._num_keepers)

    def note_use(self, program_id: str | None, blocks: Iterable[Any]) -> None:
        """A call has used these blocks; None: a call of nobody knows which program."""
        for block in blocks:
            user = self._only_user.setdefault(block.block_id, program_id)
            if user is None:
                continue
            if user == program_id:
                self._own.setdefault(user, {})[block.block_id] = block
            else:
                self._only_user[block.block_id] = None
                self._disown(user, block.block_id)

    def keep(self, program_id: str, blocks: Sequence[Any], until_s: float) -> None:
        """Keep these blocks, in order of position, for the program's next call, and nothing else any more."""
        self.let_go(program_id)
        kept = _Kept(until_s, {block.block_id: block for block in blocks[: self._max_kept]}, FreeKVCacheBlockQueue([]))
        self._kept[program_id] = kept
        insort(self._by_time, (until_s, program_id))
        own: list[Any] = []
        shared: list[Any] = []
        for block in reversed(kept.blocks.values()):
            num_keepers = self._num_keepers[block.block_id] = self._num_keepers.get(block.block_id, 0) + 1
            if block.ref_cnt == 0:
                self.remove(block)
                (own if num_keepers == 1 else shared).append(block)
        self._put(kept.free, own)
        self._put(self._common, shared)
        while len(self._num_keepers) > self._max_kept:
            self.let_go(self._by_time[0][1])

    def let_go(self, program_id: str) -> None:
        """What is kept for the program alone, if anything is, is free like other blocks, as if freed now."""
        kept = self._kept.pop(program_id, None)
        if kept is None:
            return
        self._by_time.remove((kept.until_s, program_id))
        free: list[Any] = []
        for block in reversed(kept.blocks.values()):
            self._num_keepers[block.block_id] -= 1
            if not self._num_keepers[block.block_id]:
                del self._num_keepers[block.block_id]
                if block.block_id in self._kept_in:
                    self.remove(block)
                    free.append(block)
        super().append_n(free)

    def let_go_until(self, now: float) -> None:
        """Let go of what was to be kept until `now`."""
        while self._by_time and self._by_time[0][0] <= now:
            self.let_go(self._by_time[0][1])

    def program_over(self, program_id: str) -> None:
        """The program will not come back: of the blocks that nobody else has used, those that are free go first."""
        self.let_go(program_id)
        own = self._own.pop(program_id, {})
        for block_id in own:
            del self._only_user[block_id]
        free = [block for block in reversed(own.values()) if block.ref_cnt == 0]
        for block in free:
            super().remove(block)
        super().prepend_n(free)

    def forget(self) -> None:
        """What blocks hold can no longer be found: nothing is kept, nothing remembered."""
        for program_id in list(self._kept):
            self.let_go(program_id)
        self._only_user.clear()
        self._own.clear()

    def popleft(self) -> Any:
        """The first block. Raises ValueError if there is none."""
        return self.popleft_n(1)[0] if self.num_free_blocks else super().popleft()

    def popleft_n(self, n: int) -> list[Any]:
        """The first `n` blocks, of at least as many."""
        blocks: list[Any] = []
        while len(blocks) < n:
            num_others = self.num_free_blocks - len(self._kept_in)
            if num_others:
                blocks += super().popleft_n(min(n - len(blocks), num_others))
                continue
            program_id = self._by_time[0][1]
            kept = self._kept[program_id]
            if kept.free.num_free_blocks:
                block = kept.free.popleft()
                self.num_free_blocks -= 1
                del self._kept_in[block.block_id], self._num_keepers[block.block_id], kept.blocks[block.block_id]
                blocks.append(block)
            else:  # the rest is in use or kept for others too
                self.let_go(program_id)
        for block in blocks:
            user = self._only_user.pop(block.block_id, None)
            if user is not None:
                self._disown(user, block.block_id)
        return blocks

    def remove(self, block: Any) -> None:
        """Take out a block, wherever it stands."""
        kept_in = self._kept_in.pop(block.block_id, None)
        if kept_in is None:
            super().remove(block)
        else:
            kept_in.remove(block)
            self.num_free_blocks -= 1

    def append(self, block: Any) -> None:
        """Put back a block, at the end of its list."""
        self.append_n([block])

    def append_n(self, blocks: list[Any]) -> None:
        """Put back blocks, at the ends of their lists."""
        super().append_n(self._others(blocks))

    def prepend_n(self, blocks: list[Any]) -> None:
        """Put back blocks that are to be given out first, unless they are kept."""
        super().prepend_n(self._others(blocks))

    def get_all_free_blocks(self) -> list[Any]:
        """All blocks in the order in which they would be given out."""
        kept = [self._kept[program_id].free for _, program_id in self._by_time]
        return [*super().get_all_free_blocks(), *(b for each in (*kept, self._common) for b in each.get_all_free_blocks())]

    def _others(self, blocks: list[Any]) -> list[Any]:
        """The blocks without those that are kept, which go back to their list."""
        if not self._num_keepers:
            return blocks
        self._put(self._common, [block for block in blocks if block.block_id in self._num_keepers])
        return [block for block in blocks if block.block_id not in self._num_keepers]

    def _put(self, kept_in: Any, blocks: list[Any]) -> None:
        kept_in.append_n(blocks)
        self._kept_in.update((block.block_id, kept_in) for block in blocks)
        self.num_free_blocks += len(blocks)

    def _disown(self, program_id: str, block_id: int) -> None:
        own = self._own[program_id]
        del own[block_id]
        if not own:
            del self._own[program_id]
