"""What a prompt consists of, for every kind of trace: named segments from which a prefix cache can be modelled.

Which prompts share a prefix, and how long is it? Walk two lists of (name, tokens) as long as names and lengths are equal;
where only the names are, the shorter length counts and the walk ends. That holds across programs.

| the trace has | segments |
|---|---|
| `prompt_parts` | as given |
| messages | stretches of text, see `text_parts`; a parent's recorded answer is one segment |
| `prefix_hash_ids` | a segment of `block_size` tokens per id, the last one shorter |
| `reused_tokens` | the beginning of the first parent's prompt and answer, then a segment of its own |
| none of these | one segment of its own |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentix.workload.text_parts import answer_digest, text_parts
from agentix.workload.trace import Call, Program

Part = tuple[str, int]
"""A segment: its name and its length in tokens. Equal names = equal tokens as far as the shorter one goes."""

Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class CallParts:
    """The segments of one call. The prompt's add up to `prompt_tokens`; the answer has `output_tokens`."""

    prompt: Parts
    answer: Part


def program_parts(program: Program) -> dict[str, CallParts]:
    """Call id → segments, for all calls at once: the way to use this for more than one call.

    The parent's answer stands in a child's prompt under the name of `answer`, where the trace says that it is there.
    """
    texts: Mapping[str, Parts] = text_parts(program) if program.has_text else {}
    parts: dict[str, CallParts] = {}
    for call in program.calls:
        prompt = fitted(_prompt(program, call, texts, parts), call.prompt_tokens, f"{program.program_id}/{call.call_id}:prompt")
        parts[call.call_id] = CallParts(prompt, answer_part(program, call))
    return parts


def prompt_parts(program: Program, call: Call) -> Parts:
    """The segments of one prompt. Works through the whole program: `program_parts` gives all at the same cost."""
    return program_parts(program)[call.call_id].prompt


def answer_part(program: Program, call: Call) -> Part:
    """The segment that the call's answer becomes: `output_tokens` long, in text traces named after its text."""
    if program.has_text and call.prompt_parts is None and call.output_text is not None:
        return answer_digest(call.output_text), call.output_tokens
    return answer_name(program.program_id, call.call_id), call.output_tokens


def answer_name(program_id: str, call_id: str) -> str:
    """The name of an answer of which only the length is known."""
    return f"{program_id}/{call_id}:answer"


def cut(parts: Iterable[Part], num_tokens: int) -> Parts:
    """The first `num_tokens` tokens of `parts`, or all of them if they are fewer; no empty segments."""
    kept: list[Part] = []
    for name, length in parts:
        if num_tokens <= 0:
            break
        if length > 0:
            kept.append((name, min(length, num_tokens)))
            num_tokens -= length
    return tuple(kept)


def _prompt(program: Program, call: Call, texts: Mapping[str, Parts], earlier: Mapping[str, CallParts]) -> Parts:
    if call.prompt_parts is not None:
        return call.prompt_parts
    if call.call_id in texts:
        return texts[call.call_id]
    if call.prefix_hash_ids is not None and program.block_size:
        return tuple((f"{program.workload}#{block}", program.block_size) for block in call.prefix_hash_ids)
    if call.reused_tokens and call.parents:
        parent = earlier[call.parents[0]]
        return cut((*parent.prompt, parent.answer), call.reused_tokens)
    return ()


def fitted(parts: Parts, prompt_tokens: int, own_name: str) -> Parts:
    """`parts` cut to `prompt_tokens`; what is missing becomes a segment of the call's own."""
    kept = cut(parts, prompt_tokens)
    missing = prompt_tokens - sum(length for _, length in kept)
    return (*kept, (own_name, missing)) if missing else kept
