"""What is in a prompt, as far as a prefix cache can tell: sequences of tokens without the tokens.

A context is a path of segments (a system prompt, a user's turn, an answer), each with a length. Two contexts have a prefix in
common exactly as far as their segments and lengths agree, so equal block keys mean equal prefixes, also across programs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from agentix.core.errors import AgentixError

# More tokens than any context has: `node * KEY_STRIDE + end` is one number per (node, end). Not a power of two: the last bits
# would be those of `end` alone, and the blocks of all contexts would have to share a few places of a hash table.
KEY_STRIDE = 2**32 + 2_654_435_769


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

    def block_keys(self, block_size: int, first: int = 0) -> list[int]:
        """Keys of the full blocks from number `first` on: equal keys, equal tokens up to the block's end.

        A block that is only partly filled has no key; engines do not cache it.
        """
        return [key for keys in self.key_ranges(block_size, first) for key in keys]

    def key_ranges(self, block_size: int, first: int = 0) -> Iterator[range]:
        """The same, span by span: whoever looks up keys in order can stop at the first that nobody has."""
        block_end = (first + 1) * block_size
        for span in range(bisect_left(self.ends, block_end), len(self.ends)):
            end = self.ends[span]
            if end >= block_end:
                base = self.nodes[span] * KEY_STRIDE
                in_span = range(base + block_end, base + end + 1, block_size)
                yield in_span
                block_end += len(in_span) * block_size


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
        parent = base.nodes[-1] if base.nodes else 0
        node = self._nodes.setdefault((parent, base.num_tokens, segment), len(self._nodes) + 1)
        return Context((*base.nodes, node), (*base.ends, base.num_tokens + num_tokens))
