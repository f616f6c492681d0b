"""Which KV block holds which part of which context: what a prefix cache looks up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from agentix.sim.content import Context

_NONE = -1  # no block; and no node, since nodes are numbered from 1


class PrefixIndex:
    """Finds full blocks by what they hold: a place in a node of a context (`Context.block_spans`).

    The blocks of a node stand in a list, by place, so that a whole span is found or added at once. Two calls may compute
    the same prefix side by side; their blocks stay doubles of one place, either of which may be found.
    """

    def __init__(self, num_blocks: int) -> None:
        self._nodes = [_NONE] * num_blocks  # by block: where it can be found
        self._blocks: dict[int, list[int]] = {}  # by node and place; no list ends with _NONE or is empty
        self._doubles: dict[int, tuple[int, list[int]]] = {}  # by block: its place, and all that hold the same

    def find(self, context: Context, block_size: int) -> list[int]:
        """The blocks of the context's full blocks, in order, up to the first that is not there."""
        hits: list[int] = []
        for node, places in context.block_spans(block_size):
            found = self._blocks.get(node, ())[: places.stop]
            if _NONE in found:
                return hits + list(found[: found.index(_NONE)])
            hits += found
            if len(found) < places.stop:
                break
        return hits

    def add(self, blocks: Sequence[int], context: Context, block_size: int, first: int) -> None:
        """Let `blocks` be found as the full blocks of the context from number `first` on, as many as they are."""
        begin, nodes = 0, self._nodes
        for node, places in context.block_spans(block_size, first):
            part = blocks[begin : begin + len(places)]
            if not part:
                break
            begin += len(part)
            for block in part:
                nodes[block] = node
            there = self._blocks.setdefault(node, [])
            if len(there) <= places.start:
                there += [_NONE] * (places.start - len(there))
                there += part
            else:
                self._add_beside(there, places.start, part)

    def _add_beside(self, there: list[int], start: int, blocks: Sequence[int]) -> None:
        for place, block in enumerate(blocks, start):
            if place == len(there):
                there.append(block)
            elif there[place] == _NONE:
                there[place] = block
            else:
                _, doubles = self._doubles.setdefault(there[place], (place, [there[place]]))
                doubles.append(block)
                self._doubles[block] = (place, doubles)

    def forget(self, blocks: Iterable[int]) -> None:
        """The blocks are used for something else now."""
        for node, group in groupby(blocks, self._nodes.__getitem__):
            if node != _NONE:
                self._forget_of(node, list(group))

    def forget_one(self, block: int) -> None:
        """The same for one."""
        node = self._nodes[block]
        if node != _NONE:
            self._forget_of(node, [block])

    def _forget_of(self, node: int, blocks: list[int]) -> None:
        nodes = self._nodes
        for block in blocks:
            nodes[block] = _NONE
        there = self._blocks[node]
        if not self._doubles and there[-len(blocks) :] == blocks[::-1]:  # the last ones, as they became free
            del there[-len(blocks) :]
        else:
            for block in blocks:
                if block in self._doubles:
                    self._forget_double(there, block)
                else:
                    there[there.index(block)] = _NONE
        while there and there[-1] == _NONE:
            there.pop()
        if not there:
            del self._blocks[node]

    def _forget_double(self, there: list[int], block: int) -> None:
        """The block leaves those of its place, and another of them is found from now on."""
        place, blocks = self._doubles.pop(block)
        blocks.remove(block)
        there[place] = blocks[0]
        if len(blocks) == 1:
            del self._doubles[blocks[0]]

    def problems(self) -> list[str]:
        """What is inconsistent. O(blocks)."""
        found = {block: (node, place) for node, bs in self._blocks.items() for place, block in enumerate(bs) if block != _NONE}
        doubles = {b: (self._nodes[b], place, tuple(bs)) for b, (place, bs) in self._doubles.items()}
        known = {block for block, node in enumerate(self._nodes) if node != _NONE}
        checks = [
            (known == found.keys() | doubles.keys(), "a block has a node that does not lead to it, or is found without one"),
            (all(self._nodes[b] == node for b, (node, _) in found.items()), "a node leads to a block of another node"),
            (all(b in bs and len(set(bs)) == len(bs) > 1 for b, (_, _, bs) in doubles.items()), "a double without another"),
            (all(doubles.get(o) == d for d in doubles.values() for o in d[2]), "doubles that do not know of each other"),
            (all(found.get(d[2][0]) == d[:2] for d in doubles.values()), "doubles whose first is not found"),
            (all(bs and bs[-1] != _NONE for bs in self._blocks.values()), "a node with places that nobody holds"),
        ]
        return [message for holds, message in checks if not holds]
