"""What is in a prompt, as far as a prefix cache can tell: sequences of tokens without the tokens.

A context is a path of segments (a system prompt, a user's turn, an answer), each with a length. Two contexts have a prefix in
common exactly as far as their segments and lengths agree, so equal block keys mean equal prefixes, also across programs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from agentix.core.errors import AgentixError


class ContentError(AgentixError):
    """A context of an impossible length."""


@dataclass(frozen=True, slots=True)
class Context:
    """A sequence of `num_tokens` tokens. Span i covers the half-open range [ends[i-1], ends[i]) and comes from node i.

    A node stands for "this segment after exactly that prefix": its id alone tells everything up to its end.
    """

    nodes: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Length in tokens."""
        return self.ends[-1] if self.ends else 0

    def prefix(self, num_tokens: int) -> Context:
        """The first `num_tokens` of it. Raises ContentError if it is not that long."""
        if not 0 <= num_tokens <= self.num_tokens:
            raise ContentError(f"no prefix of {num_tokens} tokens in a context of {self.num_tokens}")
        if num_tokens == 0:
            return Context()
        last = bisect_right(self.ends, num_tokens - 1)
        return Context(self.nodes[: last + 1], (*self.ends[:last], num_tokens))

    def block_keys(self, block_size: int, first: int = 0) -> list[tuple[int, int]]:
        """Keys of the full blocks from number `first` on: equal keys, equal tokens up to the block's end.

        A block that is only partly filled has no key; engines do not cache it.
        """
        return [(node, place) for node, places in self.block_spans(block_size, first) for place in places]

    def block_spans(self, block_size: int, first: int = 0) -> Iterator[tuple[int, range]]:
        """The same, node by node: a block is named by the node in which it ends, and its place among those that end there."""
        span = bisect_left(self.ends, (first + 1) * block_size)
        num_before = self.ends[span - 1] // block_size if span else 0  # blocks that end in earlier nodes
        for node, end in zip(self.nodes[span:], self.ends[span:], strict=True):
            num_blocks = end // block_size
            if num_blocks > num_before:
                yield node, range(max(first - num_before, 0), num_blocks - num_before)
                num_before = num_blocks


class Contents:
    """Makes contexts, and gives the same node to the same segment after the same prefix."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int, Hashable], int] = {}

    def extend(self, base: Context, segment: Hashable, num_tokens: int) -> Context:
        """`base` followed by `num_tokens` tokens of `segment`.

        Equal segments are equal token by token as far as the shorter goes. Raises ContentError for a negative length.
        """
        if num_tokens < 0:
            raise ContentError(f"a segment of {num_tokens} tokens: {segment!r}")
        if num_tokens == 0:
            return base
        parent, num_before = (base.nodes[-1], base.ends[-1]) if base.nodes else (0, 0)
        node = self._nodes.setdefault((parent, num_before, segment), len(self._nodes) + 1)
        return Context((*base.nodes, node), (*base.ends, num_before + num_tokens))
