"""The KV cache of the simulator: blocks are conserved, and what it finds is what was computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentix.core.errors import InvalidTransition
from agentix.sim.content import ContentError, Contents, Context
from agentix.sim.kv_cache import KVCache

SEGMENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=4)


def tokens_of(segments: list[tuple[str, int]]) -> list[str]:
    """The tokens that a path of segments stands for."""
    return [f"{name}{position}" for name, length in segments for position in range(length)]


def build(contents: Contents, segments: list[tuple[str, int]]) -> Context:
    context = Context()
    for name, length in segments:
        context = contents.extend(context, name, length)
    return context


@given(SEGMENTS, SEGMENTS, st.integers(1, 5), st.data())
def test_equal_keys_mean_equal_prefixes(one: Any, other: Any, block_size: int, data: st.DataObject) -> None:
    contents = Contents()
    first, second = build(contents, one), build(contents, other)
    cut = data.draw(st.integers(0, first.num_tokens))
    first = first.prefix(cut)
    assert first.num_tokens == cut
    keys, other_keys = first.block_keys(block_size), second.block_keys(block_size)
    assert len(keys) == cut // block_size
    assert len(set(keys)) == len(keys)
    for number, (key, other_key) in enumerate(zip(keys, other_keys, strict=False), 1):
        if key == other_key:
            assert tokens_of(one)[: number * block_size] == tokens_of(other)[: number * block_size]


@given(SEGMENTS, st.integers(1, 5), st.data())
def test_a_prefix_has_the_first_keys_of_the_whole(segments: Any, block_size: int, data: st.DataObject) -> None:
    whole = build(Contents(), segments)
    cut = data.draw(st.integers(0, whole.num_tokens))
    first = data.draw(st.integers(0, 3))
    assert whole.prefix(cut).block_keys(block_size, first) == whole.block_keys(block_size)[first : cut // block_size]


def test_a_branch_shares_what_lies_before_it() -> None:
    contents = Contents()
    trunk = contents.extend(Context(), "system", 8)
    left, right = contents.extend(trunk, "left", 8), contents.extend(trunk, "right", 8)
    again = contents.extend(contents.extend(trunk.prefix(8), "left", 8), "more", 4)
    assert left.block_keys(4)[:2] == right.block_keys(4)[:2]
    assert set(left.block_keys(4)[2:]).isdisjoint(right.block_keys(4)[2:])
    assert again.block_keys(4)[:4] == left.block_keys(4)


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(ContentError):
        Contents().extend(Context(), "a", -1)
    with pytest.raises(ContentError):
        Context().prefix(1)


class Cache(RuleBasedStateMachine):
    """Calls that come, grow, compute and go, on a pool that is too small for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.contents = Contents()
        self.cache = KVCache(num_blocks=6, block_size=4)
        self.calls: dict[str, tuple[Context, int]] = {}  # context, tokens computed
        self.num_calls = 0

    @rule(segments=SEGMENTS.filter(bool))
    def admit(self, segments: Any) -> None:
        context = build(self.contents, segments)
        call_id = f"c{self.num_calls}"
        self.num_calls += 1
        free, hits = self.cache.num_free_blocks, self.cache.hit_tokens(context)
        found = self.cache.admit(call_id, context, context.num_tokens)
        if found is None:
            assert self.cache.num_free_blocks == free
            assert self.cache.blocks_for(context.num_tokens) > free
            return
        assert found == hits < context.num_tokens
        assert self.cache.held_blocks(call_id) == self.cache.blocks_for(context.num_tokens)
        self.calls[call_id] = (context, found)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), num_tokens=st.integers(1, 6))
    def answer(self, data: st.DataObject, num_tokens: int) -> None:
        """A call computes its prompt and some tokens of its answer."""
        call_id = data.draw(st.sampled_from(sorted(self.calls)))
        context, _ = self.calls[call_id]
        longer = self.contents.extend(context, f"answer of {call_id} from {context.num_tokens}", num_tokens)
        free = self.cache.num_free_blocks
        if self.cache.grow(call_id, longer.num_tokens):
            self.cache.computed(call_id, longer, longer.num_tokens)
            self.calls[call_id] = (longer, longer.num_tokens)
            keyed = (longer.num_tokens - 1) // 4 * 4
            assert self.cache.hit_tokens(longer) == keyed, "a call finds all that it has computed"
        else:
            assert self.cache.num_free_blocks == free

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(sorted(self.calls)))
        context, num_computed = self.calls.pop(call_id)
        before = self.cache.hit_tokens(context)
        self.cache.release(call_id)
        assert self.cache.hit_tokens(context) == before, "a prefix outlives its call until its blocks are needed"
        assert self.cache.held_blocks(call_id) == 0
        assert num_computed >= 0

    @invariant()
    def consistent(self) -> None:
        self.cache.validate()
        held = {b for h in self.cache._holdings.values() for b in h.blocks}
        assert len(held) + self.cache.num_free_blocks == self.cache.num_blocks


TestCache = Cache.TestCase


def test_the_beginnings_of_prompts_stay_longest() -> None:
    contents, cache = Contents(), KVCache(num_blocks=4, block_size=4)
    prompt = contents.extend(Context(), "prompt", 16)
    assert cache.admit("a", prompt, 16) == 0
    cache.computed("a", prompt, 16)
    cache.release("a")
    assert cache.hit_tokens(contents.extend(prompt, "more", 1)) == 16
    other = contents.extend(Context(), "other", 4)
    cache.admit("b", other, 4)
    assert cache.hit_tokens(contents.extend(prompt, "more", 1)) == 12


def test_without_a_prefix_cache_nothing_is_found() -> None:
    contents, cache = Contents(), KVCache(num_blocks=4, block_size=4, prefix_cache=False)
    prompt = contents.extend(Context(), "prompt", 16)
    cache.admit("a", prompt, 16)
    cache.computed("a", prompt, 16)
    cache.release("a")
    assert cache.hit_tokens(prompt) == 0


def test_two_calls_with_one_prompt_hold_its_blocks_together() -> None:
    contents, cache = Contents(), KVCache(num_blocks=5, block_size=4)
    prompt = contents.extend(Context(), "prompt", 17)
    cache.admit("a", prompt, 16)
    cache.computed("a", prompt, 16)
    assert cache.admit("b", prompt, 17) == 16
    assert cache.num_free_blocks == 0
    cache.release("a")
    assert cache.num_free_blocks == 0
    cache.release("b")
    assert cache.num_free_blocks == 5


def test_what_cannot_be_is_refused() -> None:
    contents, cache = Contents(), KVCache(num_blocks=2, block_size=4)
    prompt = contents.extend(Context(), "prompt", 4)
    cache.admit("a", prompt, 4)
    for impossible in (
        lambda: cache.admit("a", prompt, 4),
        lambda: cache.release("b"),
        lambda: cache.grow("b", 1),
        lambda: KVCache(0, 4),
    ):
        with pytest.raises(InvalidTransition):
            impossible()
    cache.validate()
