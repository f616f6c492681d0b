"""Prompts as paths in a tree of pieces, and the segments that this gives them: equal stretches get equal names and lengths.

A piece is an indivisible stretch of text, known by a digest. A segment is a stretch of pieces that ends at the end of a
message or where two prompts part, so prompts that differ in the middle of a message (search prompts that hold everything in
one) still share its beginning.

Only whole prompts and answers have known token counts. The first prompt that brings new pieces spreads what its own count
exceeds the shared part by over them, by weight; every later prompt finds the same pieces at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

Segments = tuple[tuple[str, int], ...]


class Piece(NamedTuple):
    """An indivisible stretch of text."""

    digest: str
    weight: int  # characters
    ends_message: bool


@dataclass(slots=True, eq=False)
class Node:
    """A piece after exactly the pieces of its ancestors. The root, before all pieces, is `Node()`."""

    digest: str = ""
    end: int = 0  # tokens up to and including it
    ends_message: bool = True
    parent: Node | None = None
    children: dict[tuple[str, bool], Node] = field(default_factory=dict)

    def child(self, piece: Piece, end: int) -> Node:
        """The child of that piece; a new one ends at `end` tokens."""
        key = (piece.digest, piece.ends_message)
        if key not in self.children:
            self.children[key] = Node(piece.digest, end, piece.ends_message, self)
        return self.children[key]

    def find(self, piece: Piece) -> Node | None:
        """The child of that piece, if there is one."""
        return self.children.get((piece.digest, piece.ends_message))


def extend(node: Node, pieces: Sequence[Piece], prompt_tokens: int) -> list[Node]:
    """The nodes of `pieces` after `node`; those that are not there yet share the tokens that are left."""
    nodes: list[Node] = []
    for index, piece in enumerate(pieces):
        known = node.find(piece)
        if known is None:
            return nodes + _append(node, pieces[index:], prompt_tokens)
        node = known
        nodes.append(node)
    return nodes


def segments(last: Node, known: dict[Node, Segments]) -> Segments:
    """Names and lengths from the root to `last`, the end of a message, without empty ones.

    To be asked once all prompts are in the tree. `known` keeps what was found; it begins as `{root: ()}`.
    """
    found: list[tuple[str, int]] = []
    node = last
    while node not in known:
        end, digests = node.end, [node.digest]
        while node.parent is not None and not (node.parent.ends_message or len(node.parent.children) > 1):
            node = node.parent
            digests.append(node.digest)
        assert node.parent is not None  # noqa: S101 - for mypy: the root is known and ends a message
        node = node.parent
        if end > node.end:
            found.append((digests[0] if len(digests) == 1 else digest(" ".join(digests)), end - node.end))
    known[last] = (*known[node], *reversed(found))
    return known[last]


def digest(text: str) -> str:
    """64 bits of a text, as a name."""
    return blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).hexdigest()


def _append(node: Node, pieces: Sequence[Piece], prompt_tokens: int) -> list[Node]:
    start, left = node.end, max(0, prompt_tokens - node.end)
    total, so_far = sum(piece.weight for piece in pieces), 0
    nodes: list[Node] = []
    for piece in pieces:
        so_far += piece.weight
        node = node.child(piece, start + left * so_far // total)
        nodes.append(node)
    return nodes
