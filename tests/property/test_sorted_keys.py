"""Sorted keys beside a list that is sorted anew each time."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core import sorted_keys
from agentix.core.entry import Key
from agentix.core.sorted_keys import SortedKeys

NUMBERS = st.integers(0, 40)


def key(number: int) -> Key:
    return (0, float(number), number, f"call-{number}")


@given(begin=st.sets(NUMBERS), steps=st.lists(st.tuples(st.booleans(), NUMBERS)), most=st.sampled_from([2, 3, 8, 1024]))
def test_they_are_what_a_sorted_list_is(begin: set[int], steps: list[tuple[bool, int]], most: int) -> None:
    with mock.patch.object(sorted_keys, "_MOST_KEYS", most):
        keys, plain = SortedKeys(map(key, sorted(begin))), set(begin)
        for is_new, number in steps:
            if is_new and number not in plain:
                keys.add(key(number))
                plain.add(number)
            else:
                assert keys.discard(key(number)) == (number in plain)
                plain.discard(number)
            expected = [key(n) for n in sorted(plain)]
            assert (list(keys), list(reversed(keys)), len(keys)) == (expected, expected[::-1], len(expected))
            assert [keys.num_before(key(n)) for n in range(42)] == [sum(other < n for other in plain) for n in range(42)]
        assert keys == SortedKeys(map(key, sorted(plain)))


@pytest.mark.parametrize("other", [[1, 2], [1, 2, 3, 4], [1, 2, 4]])
def test_they_differ_by_what_they_hold(other: list[int]) -> None:
    assert SortedKeys(map(key, [1, 2, 3])) != SortedKeys(map(key, other))


def test_no_block_grows_beyond_its_bound() -> None:
    keys = SortedKeys()
    for number in range(10_000):
        keys.add(key(number * 7919 % 10_000))
    assert max(map(len, keys._blocks)) <= sorted_keys._MOST_KEYS
    assert len(keys._blocks) <= 10_000 // (sorted_keys._MOST_KEYS // 4)
