"""How much of a program's prompts an unlimited prefix cache would find, from their segments."""

from __future__ import annotations

from typing import Any

from agentix.workload import Parts, Program, program_parts


class PrefixTree:
    """Everything that was computed so far: name → length → what came after."""

    def __init__(self) -> None:
        self._root: dict[str, dict[int, Any]] = {}

    def match(self, parts: Parts) -> int:
        """Tokens of `parts` that are a prefix of something added before."""
        node, hit = self._root, 0
        for name, tokens in parts:
            known = node.get(name)
            if known is None:
                return hit
            if tokens not in known:
                return hit + min(tokens, max(known))
            node, hit = known[tokens], hit + tokens
        return hit

    def add(self, parts: Parts) -> None:
        node = self._root
        for name, tokens in parts:
            node = node.setdefault(name, {}).setdefault(tokens, {})


def reused_and_all_tokens(program: Program, tree: PrefixTree | None = None) -> tuple[int, int]:
    """Prompt tokens that an earlier call's prompt and answer begin with, and all prompt tokens."""
    tree = PrefixTree() if tree is None else tree
    parts = program_parts(program)
    reused = 0
    for call in program.calls:
        reused += tree.match(parts[call.call_id].prompt)
        tree.add((*parts[call.call_id].prompt, parts[call.call_id].answer))
    return reused, sum(call.prompt_tokens for call in program.calls)


def prefix_reuse(programs: tuple[Program, ...]) -> float:
    """Share of all prompt tokens that was there already within each program."""
    counts = [reused_and_all_tokens(program) for program in programs]
    return sum(reused for reused, _ in counts) / sum(total for _, total in counts)
