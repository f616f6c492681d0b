"""The order in which KV blocks are given out, on vLLM's real block pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.without_model.scheduler import BlockPool, ReuseOrder

pytestmark = pytest.mark.engine

NUM_BLOCKS = 12
MAX_KEPT = 6
PROGRAMS = "pqr"


class Pool:
    """Twelve blocks. A call takes some or shares what another call had, and gives them back; all that it had can be found."""

    def __init__(self, max_kept_blocks: int = MAX_KEPT) -> None:
        self.pool = BlockPool(NUM_BLOCKS + 1, enable_caching=True, hash_block_size=4)
        free = self.pool.free_block_queue.get_all_free_blocks()
        self.order = self.pool.free_block_queue = ReuseOrder(free, max_kept_blocks=max_kept_blocks)

    def take(self, number: int) -> list[Any]:
        blocks: list[Any] = self.pool.get_new_blocks(number)
        for block in blocks:
            block.set_block_hash(b"hash of %d" % block.block_id)
        return blocks

    def share(self, blocks: Sequence[Any]) -> list[Any]:
        self.pool.touch(blocks)
        return list(blocks)

    def give_back(self, program_id: str | None, blocks: Sequence[Any], until_s: float | None = None) -> None:
        self.pool.free_blocks(reversed(blocks))
        self.order.note_use(program_id, blocks)
        if program_id is not None and until_s is not None:
            self.order.keep(program_id, blocks, until_s)

    def rest(self) -> list[int]:
        """All free blocks, in the order in which they are given out."""
        return [self.order.popleft().block_id for _ in range(self.order.num_free_blocks)]


def test_what_is_kept_goes_last_the_shortest_kept_and_deepest_first() -> None:
    """p has 1-3, q 4-6 and nobody 7-8; 9-12 were never used."""
    pool = Pool()
    p, q, x = pool.take(3), pool.take(3), pool.take(2)
    pool.give_back("p", p, until_s=20.0)
    pool.give_back("q", q, until_s=10.0)
    pool.give_back(None, x)
    assert pool.order.num_free_blocks == NUM_BLOCKS
    assert pool.rest() == [9, 10, 11, 12, 8, 7, 6, 5, 4, 3, 2, 1]


def test_what_is_let_go_is_as_if_freed_now() -> None:
    pool = Pool()
    p, x = pool.take(3), pool.take(2)
    pool.give_back("p", p, until_s=20.0)
    pool.give_back(None, x)
    pool.order.let_go_until(19.9)
    assert pool.order.keeps("p")
    pool.order.let_go_until(20.0)
    assert not pool.order.keeps("p")
    assert pool.rest() == [6, 7, 8, 9, 10, 11, 12, 5, 4, 3, 2, 1]


def test_what_two_programs_share_is_kept_as_long_as_one_of_them() -> None:
    """1-2 are the beginning of both; p has 3 besides, q 4."""
    pool = Pool()
    p = pool.take(3)
    q = [*pool.share(p[:2]), *pool.take(1)]
    pool.give_back("p", p, until_s=20.0)
    pool.give_back("q", q, until_s=10.0)
    assert pool.order.get_all_free_blocks() == [*pool.pool.blocks[5:], q[2], p[2], p[1], p[0]]
    pool.order.let_go("p")
    assert pool.rest() == [5, 6, 7, 8, 9, 10, 11, 12, 3, 4, 2, 1]


def test_what_others_have_used_meanwhile_is_still_kept() -> None:
    pool = Pool()
    p = pool.take(2)
    pool.give_back("p", p, until_s=20.0)
    pool.give_back(None, pool.share(p[:1]))
    assert pool.rest() == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2, 1]


def test_a_program_that_is_over_gives_its_own_blocks_first() -> None:
    """p: a call with 1-3, then one with 1-2 and 4. q shares 1. All but p's last are freed after p's."""
    pool = Pool()
    first = pool.take(3)
    second = [*pool.share(first[:2]), *pool.take(1)]
    q = [*pool.share(first[:1]), *pool.take(1)]
    pool.give_back("p", first)
    pool.give_back("p", second, until_s=20.0)
    pool.give_back("q", q)
    pool.order.program_over("p")
    assert pool.rest() == [4, 3, 2, 6, 7, 8, 9, 10, 11, 12, 5, 1]


def test_blocks_that_were_given_out_since_are_left_alone_when_a_program_is_over() -> None:
    """p used 1-3; 3 and 2 have gone to q since, which gave them back."""
    pool = Pool()
    pool.give_back("p", pool.take(3))
    q = pool.take(11)
    assert [block.block_id for block in q] == [4, 5, 6, 7, 8, 9, 10, 11, 12, 3, 2]
    pool.give_back("q", q)
    pool.order.program_over("p")
    assert pool.rest() == [1, 2, 3, 12, 11, 10, 9, 8, 7, 6, 5, 4]


def test_no_more_is_kept_than_allowed() -> None:
    """Of a long call the beginning; of several programs those that are kept longest."""
    pool = Pool(max_kept_blocks=4)
    pool.give_back("p", pool.take(6), until_s=20.0)
    assert pool.order.num_kept_blocks == 4
    pool.give_back("q", pool.take(2), until_s=10.0)
    assert (pool.order.keeps("p"), pool.order.keeps("q")) == (True, False)
    pool.give_back("r", pool.take(1), until_s=30.0)
    assert (pool.order.keeps("p"), pool.order.keeps("r"), pool.order.num_kept_blocks) == (False, True, 1)


ACTIONS = st.tuples(
    st.sampled_from(("take", "take", "share", "give", "give", "keep", "keep", "let go", "over", "time", "forget")),
    st.integers(0, 999),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ACTIONS, max_size=60))
def test_a_kept_block_is_given_out_only_when_all_others_have_gone(actions: Sequence[tuple[str, int]]) -> None:
    pool, order = (made := Pool()), made.order
    active: list[list[Any]] = []
    kept: dict[str, tuple[float, set[int]]] = {}
    last_call: list[Any] = []
    now = 0.0

    def kept_until(block: Any) -> float:
        return max((until_s for until_s, ids in kept.values() if block.block_id in ids), default=-1.0)

    for action, pick in actions:
        program_id, free = PROGRAMS[pick % 3], [block for block in pool.pool.blocks[1:] if block.ref_cnt == 0]
        match action:
            case "take":
                number = min(pick % 5, len(free))
                waits_until = {block.block_id: kept_until(block) for block in free}
                taken = made.take(number)
                gone = [waits_until.pop(block.block_id) for block in taken]
                assert max(gone, default=-1.0) <= min(waits_until.values(), default=now + 99)
                assert gone == sorted(gone)
                for _, ids in kept.values():
                    ids.difference_update(block.block_id for block in taken)
                active.append(taken)
            case "share" if last_call and all(block.block_hash for block in last_call):
                active.append(made.share(last_call[: pick % 5]))
            case "give" | "keep" if active:
                last_call = active.pop(pick % len(active))
                until_s = now + pick % 7 if action == "keep" else None
                made.give_back(program_id if pick % 5 else None, last_call, until_s)
                if until_s is not None and pick % 5:
                    kept[program_id] = (until_s, {block.block_id for block in last_call})
            case "let go":
                order.let_go(program_id)
            case "over":
                order.program_over(program_id)
                last_call = []
            case "time":
                now += pick % 3
                order.let_go_until(now)
                assert not any(order.keeps(p) for p, (until_s, _) in kept.items() if until_s <= now)
            case "forget":
                order.forget()
                assert order.num_kept_blocks == 0
        kept = {p: each for p, each in kept.items() if order.keeps(p)}
        free_ids = sorted(block.block_id for block in pool.pool.blocks[1:] if block.ref_cnt == 0)
        assert sorted(block.block_id for block in order.get_all_free_blocks()) == free_ids
        assert order.num_free_blocks == len(free_ids)
        assert order.num_kept_blocks == len({i for _, ids in kept.values() for i in ids}) <= MAX_KEPT
    assert sorted(made.rest()) == free_ids if actions else True
