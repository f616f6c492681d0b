"""The segments of a text trace: which stretches of text the prompts of one program have in common.

The program's prompts form a tree of pieces (`prompt_tree`): lines of messages; an assistant's message is one piece, as it came
from one answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentix.workload.prompt_tree import Node, Piece, Segments, digest, extend, segments
from agentix.workload.trace import Message, Program

_MESSAGE_WEIGHT = 16  # what a message costs beside its text, in characters: about four tokens of template


def answer_digest(text: str) -> str:
    """The name of an answer's segment: that of the assistant message which repeats it."""
    return next(_pieces({"role": "assistant", "content": text})).digest


def text_parts(program: Program) -> dict[str, Segments]:
    """Call id → segments of its prompt, for a program of which every call has its messages.

    Lengths are not yet fitted to `prompt_tokens`: the counts of a trace may contradict each other.
    O(text of the program + segments of all its prompts).
    """
    root = Node()
    messages_of: dict[str, list[Node]] = {}  # the last node of each message of a call's prompt
    for call in program.calls:
        ends: list[Node] = []
        if call.inherits:
            parent = program.call(call.parents[0])
            ends = list(messages_of[parent.call_id])
            if parent.output_text is not None:
                last = ends[-1] if ends else root
                piece = Piece(answer_digest(parent.output_text), 0, ends_message=True)
                ends.append(last.child(piece, last.end + parent.output_tokens))
            ends = ends[: call.keep or None]
        pieces = [piece for message in call.messages or () for piece in _pieces(message)]
        new = extend(ends[-1] if ends else root, pieces, call.prompt_tokens)
        messages_of[call.call_id] = ends + [node for node in new if node.ends_message]
    known: dict[Node, Segments] = {root: ()}
    return {call_id: segments(ends[-1] if ends else root, known) for call_id, ends in messages_of.items()}


def _pieces(message: Message) -> Iterator[Piece]:
    """The message as pieces, at least one. Role and fields beside the text belong to the first."""
    text = _text(message)
    beside: Mapping[str, object] = {key: value for key, value in message.items() if key != "content"}
    head = json.dumps(beside, sort_keys=True)
    lines = [text] if message["role"] == "assistant" else text.splitlines(keepends=True) or [""]
    for index, line in enumerate(lines):
        before = head if index == 0 else ""
        weight = len(line) + (_MESSAGE_WEIGHT + max(0, len(head) - 24) if index == 0 else 0)
        yield Piece(digest(f"{before}\0{line}"), weight, ends_message=index == len(lines) - 1)


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, sort_keys=True)
