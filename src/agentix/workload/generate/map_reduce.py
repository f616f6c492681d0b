"""Map-reduce over a document: one call splits it, parallel calls read a chunk each, one joins what they found."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentix.workload.generate.base import at_least, mean_tokens
from agentix.workload.parts import Part, answer_name
from agentix.workload.trace import Call, Program

SPLIT: Part = ("map_reduce/split", 120)
MAP: Part = ("map_reduce/map", 200)
REDUCE: Part = ("map_reduce/reduce", 160)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReduce:
    """A fork and a join, the smallest program with a critical path. Its lengths are plausible, not fitted to a trace.

    `min_maps` to `max_maps` chunks (uniform) of 800 tokens in the mean. The split reads the document and plans (100
    output tokens), a map reads its instruction and its chunk (150), the reduce reads all maps' answers (300). Each of
    the three instructions is shared by all programs; chunks are the program's own, and the same text in split and map.
    """

    min_maps: int = 4
    max_maps: int = 16

    def __post_init__(self) -> None:
        at_least(1, min_maps=self.min_maps)
        at_least(self.min_maps, max_maps=self.max_maps)

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """One document."""
        program_id = f"map_reduce-{index}"
        num_maps = rng.randint(self.min_maps, self.max_maps)
        chunks = tuple((f"{program_id}/chunk{i}", mean_tokens(rng, 800, 0.4, cap=4000)) for i in range(num_maps))
        split = _call("split", (), (SPLIT, *chunks), mean_tokens(rng, 100, 0.4, cap=500))
        maps = tuple(
            _call("map", ("split",), (MAP, chunk), mean_tokens(rng, 150, 0.6, cap=1000), f"map{i}")
            for i, chunk in enumerate(chunks)
        )
        answers = tuple((answer_name(program_id, call.call_id), call.output_tokens) for call in maps)
        reduce = _call("reduce", tuple(call.call_id for call in maps), (REDUCE, *answers), mean_tokens(rng, 300, 0.5, cap=2000))
        return Program(program_id=program_id, workload="map_reduce", calls=(split, *maps, reduce))


def _call(
    kind: str, parents: tuple[str, ...], prompt: tuple[Part, ...], output_tokens: int, call_id: str | None = None
) -> Call:
    return Call(
        call_id=call_id or kind,
        parents=parents,
        prompt_tokens=sum(tokens for _, tokens in prompt),
        output_tokens=output_tokens,
        prompt_parts=prompt,
        tool_gap_s=None if kind == "reduce" else 0.0,
        kind=kind,
    )
