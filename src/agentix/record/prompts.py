"""What recorded prompts share, with each other and with the answers that they repeat, as segments of a trace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentix.record.calls import Message
from agentix.workload.parts import answer_name, fitted
from agentix.workload.prompt_tree import Node, Piece, Segments, extend, segments

RecordedPrompt = tuple[str, str, tuple[Message, ...], tuple[Message, ...], int, int]
"""Program id, call id, messages of the prompt, messages of the answer, tokens of the prompt, tokens of the answer."""


def prompt_parts_of(prompts: Iterable[RecordedPrompt]) -> dict[tuple[str, str], Segments]:
    """(Program, call) → `prompt_parts` of its call in the trace; `prompts` in the order in which the calls arrived.

    All prompts of a recording form one tree (`prompt_tree`), so a system prompt has one name in all programs. Where a prompt
    goes on with what an earlier call's engine answered to the same beginning, that stretch has the name and the length of that
    answer, as a trace wants it. O(pieces of all prompts).
    """
    root = Node()
    answers = _Answers()
    ends: dict[tuple[str, str], tuple[Node, int]] = {}
    for program_id, call_id, prompt, answer, prompt_tokens, output_tokens in prompts:
        pieces = [piece for message in prompt for piece in message]
        node, num_known = answers.follow(root, pieces)
        new = extend(node, pieces[num_known:], prompt_tokens)
        end = new[-1] if new else node
        ends[program_id, call_id] = end, prompt_tokens
        answers.add(end, answer, Piece(answer_name(program_id, call_id), 1, ends_message=True), output_tokens)
    known: dict[Node, Segments] = {root: ()}
    return {
        (program_id, call_id): fitted(segments(end, known), prompt_tokens, f"{program_id}/{call_id}:prompt")
        for (program_id, call_id), (end, prompt_tokens) in ends.items()
    }


class _Answers:
    """After which prompt which answer came, and where in the tree it is."""

    def __init__(self) -> None:
        self._found: dict[tuple[Node, str], list[tuple[list[str], Node]]] = {}  # by the prompt's end and the first piece

    def add(self, end: Node, answer: Sequence[Message], piece: Piece, output_tokens: int) -> None:
        """An answer to the prompt that ends there; without any text there is nothing to know it by. Equal ones: the first."""
        digests = [piece.digest for message in answer for piece in message]
        if digests:
            known = self._found.setdefault((end, digests[0]), [])
            if all(digests != others for others, _ in known):
                known.append((digests, end.child(piece, end.end + output_tokens)))

    def follow(self, node: Node, pieces: Sequence[Piece]) -> tuple[Node, int]:
        """How far a prompt goes where earlier ones and answers to them went: the last node there, after how many pieces."""
        at = 0
        while at < len(pieces):
            answer = self._answer(node, pieces, at)
            if answer is not None:
                length, node = answer
                at += length
                continue
            child = node.find(pieces[at])
            if child is None:
                break
            node, at = child, at + 1
        return node, at

    def _answer(self, node: Node, pieces: Sequence[Piece], at: int) -> tuple[int, Node] | None:
        """The longest answer to this beginning with which the prompt goes on."""
        found = [
            (len(digests), end)
            for digests, end in self._found.get((node, pieces[at].digest), ())
            if digests == [piece.digest for piece in pieces[at : at + len(digests)]]
        ]
        return max(found, key=lambda f: f[0], default=None)
