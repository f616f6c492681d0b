"""The segments of a text trace: which stretches of text the prompts of one program have in common.

The program's prompts form a tree of pieces (lines of messages; an assistant's message is one piece, as it came from one
answer). A segment is a stretch of pieces that ends at the end of a message or where two prompts of the program part, so
prompts that differ in the middle of a message (search prompts that hold everything in one) still share its beginning.

Only whole prompts and answers have known token counts. The first prompt that brings new pieces spreads what its own
count exceeds the shared part by over them, by length of text; every later prompt finds the same pieces at the same places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from agentix.workload.trace import Message, Program

_MESSAGE_WEIGHT = 16  # what a message costs beside its text, in characters: about four tokens of template


class _Piece(NamedTuple):
    """An indivisible stretch of text."""

    digest: str
    weight: int  # characters
    ends_message: bool


@dataclass(slots=True, eq=False)
class _Node:
    """A piece after exactly the pieces of its ancestors."""

    digest: str = ""
    end: int = 0  # tokens up to and including it
    ends_message: bool = True
    parent: _Node | None = None
    children: dict[tuple[str, bool], _Node] = field(default_factory=dict)

    def child(self, piece: _Piece, end: int) -> _Node:
        """The child of that piece; a new one ends at `end` tokens."""
        key = (piece.digest, piece.ends_message)
        if key not in self.children:
            self.children[key] = _Node(piece.digest, end, piece.ends_message, self)
        return self.children[key]


def answer_digest(text: str) -> str:
    """The name of an answer's segment: that of the assistant message which repeats it."""
    return next(_pieces({"role": "assistant", "content": text})).digest


def text_parts(program: Program) -> dict[str, tuple[tuple[str, int], ...]]:
    """Call id → segments of its prompt, for a program of which every call has its messages.

    Lengths are not yet fitted to `prompt_tokens`: the counts of a trace may contradict each other.
    O(text of the program + segments of all its prompts).
    """
    root = _Node()
    messages_of: dict[str, list[_Node]] = {}  # the last node of each message of a call's prompt
    for call in program.calls:
        ends: list[_Node] = []
        if call.inherits:
            parent = program.call(call.parents[0])
            ends = list(messages_of[parent.call_id])
            if parent.output_text is not None:
                last = ends[-1] if ends else root
                piece = _Piece(answer_digest(parent.output_text), 0, ends_message=True)
                ends.append(last.child(piece, last.end + parent.output_tokens))
            ends = ends[: call.keep or None]
        pieces = [piece for message in call.messages or () for piece in _pieces(message)]
        new = _extend(ends[-1] if ends else root, pieces, call.prompt_tokens)
        messages_of[call.call_id] = ends + [node for node in new if node.ends_message]
    known: dict[_Node, tuple[tuple[str, int], ...]] = {root: ()}
    return {call_id: _segments(ends[-1] if ends else root, known) for call_id, ends in messages_of.items()}


def _extend(node: _Node, pieces: list[_Piece], prompt_tokens: int) -> list[_Node]:
    """The nodes of `pieces` after `node`; those that are not there yet share the tokens that are left."""
    nodes: list[_Node] = []
    for index, piece in enumerate(pieces):
        key = (piece.digest, piece.ends_message)
        if key not in node.children:
            return nodes + _append(node, pieces[index:], prompt_tokens)
        node = node.children[key]
        nodes.append(node)
    return nodes


def _append(node: _Node, pieces: list[_Piece], prompt_tokens: int) -> list[_Node]:
    start, left = node.end, max(0, prompt_tokens - node.end)
    total, so_far = sum(piece.weight for piece in pieces), 0
    nodes: list[_Node] = []
    for piece in pieces:
        so_far += piece.weight
        node = node.child(piece, start + left * so_far // total)
        nodes.append(node)
    return nodes


def _segments(last: _Node, known: dict[_Node, tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    """Names and lengths from the root to `last`, the end of a message, without empty ones. `known` keeps what was found."""
    segments: list[tuple[str, int]] = []
    node = last
    while node not in known:
        end, digests = node.end, [node.digest]
        while node.parent is not None and not (node.parent.ends_message or len(node.parent.children) > 1):
            node = node.parent
            digests.append(node.digest)
        assert node.parent is not None  # noqa: S101 - for mypy: the root is known and ends a message
        node = node.parent
        if end > node.end:
            segments.append((digests[0] if len(digests) == 1 else _digest(" ".join(digests)), end - node.end))
    known[last] = (*known[node], *reversed(segments))
    return known[last]


def _pieces(message: Message) -> Iterator[_Piece]:
    """The message as pieces, at least one. Role and fields beside the text belong to the first."""
    text = _text(message)
    beside: Mapping[str, object] = {key: value for key, value in message.items() if key != "content"}
    head = json.dumps(beside, sort_keys=True)
    lines = [text] if message["role"] == "assistant" else text.splitlines(keepends=True) or [""]
    for index, line in enumerate(lines):
        before = head if index == 0 else ""
        weight = len(line) + (_MESSAGE_WEIGHT + max(0, len(head) - 24) if index == 0 else 0)
        yield _Piece(_digest(f"{before}\0{line}"), weight, ends_message=index == len(lines) - 1)


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, sort_keys=True)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).hexdigest()
