"""A recorded program: a DAG of LLM calls with their text or their lengths, and the gaps between them.

A trace is one JSON object per program per line. Text traces hold each call's messages and recorded answer and can be
replayed on a real engine; length-only traces hold token counts and can only be simulated. Token counts are those of
the trace's own tokenizer (cl100k_base with four tokens per message, unless its source says otherwise), so they only
estimate what another model's tokenizer gives.

A length-only call may say in `prompt_parts` what its prompt consists of: named segments with their lengths, in order,
which add up to `prompt_tokens`. Equal names mean equal tokens as far as the shorter one goes, in other programs too: a
system prompt carries one name in all programs of its class, the samples of one prompt have equal parts, and a child
repeats its parent's parts followed by the parent's answer. That answer is the segment `PROGRAM_ID/CALL_ID:answer` of
`output_tokens` tokens. Two prompts share a prefix as far as their names and lengths agree; `parts` gives the segments of
every kind of trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentix.workload.errors import TraceError

Message = Mapping[str, Any]
"""One chat message as OpenAI's API has it: `role`, `content`, maybe `tool_calls` or `tool_call_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One LLM request of a program. None means "not recorded" in every optional field."""

    call_id: str  # unique within its program
    parents: tuple[str, ...]  # it starts when all have ended and their gaps have passed
    prompt_tokens: int
    output_tokens: int
    tool_gap_s: float | None = None  # from this call's end to its earliest child's start
    inherits: bool = False  # whether the conversation of parents[0] precedes `messages`
    messages: tuple[Message, ...] | None = None  # None in length-only traces
    keep: int | None = None  # how many inherited messages stay; None or 0: all
    output_text: str | None = None
    output_estimated: bool = False  # output_tokens is a mean, the answer itself was not logged
    synthetic_output: bool = False  # output_text is a template, not a model's
    new_tokens: int | None = None
    reused_tokens: int | None = None  # prefix shared with an earlier call of the program
    prefix_hash_ids: tuple[int, ...] | None = None  # equal ids = equal prefix blocks, across programs too
    prompt_parts: tuple[tuple[str, int], ...] | None = None  # the whole prompt as (name, tokens); see the module
    arrival_s: float | None = None
    since_parent_arrival_s: float | None = None
    batch_latency_s: float | None = None
    after: str | None = None  # what followed: "tool", "human" or "end"
    kind: str | None = None
    step: int | None = None
    agent: str | None = None

    @property
    def max_tokens(self) -> int:
        """How long an answer to ask for: as long as the recorded one, and at least the one token servers insist on."""
        return max(1, self.output_tokens)


@dataclass(frozen=True, kw_only=True)
class Program:
    """One run of an agent. `calls` is a topological order: parents come before their children."""

    program_id: str
    workload: str
    calls: tuple[Call, ...]
    arrival_s: float | None = None
    block_size: int | None = None  # tokens per block of `prefix_hash_ids`
    meta: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _by_id(self) -> dict[str, Call]:
        return {call.call_id: call for call in self.calls}

    @property
    def has_text(self) -> bool:
        """Whether every call has its messages, so that the program can be replayed on an engine."""
        return all(call.messages is not None for call in self.calls)

    def call(self, call_id: str) -> Call:
        """The call of that id. Raises TraceError."""
        if call_id not in self._by_id:
            raise TraceError("no such call", program_id=self.program_id, call_id=call_id)
        return self._by_id[call_id]


def full_messages(program: Program, call: Call) -> list[Message]:
    """The whole conversation that `call` sent, from the differences that the trace stores.

    full(call) = (full(parents[0]) + [recorded answer of parents[0], if any])[:keep or all] + messages   if it inherits
    full(call) = messages                                                                            otherwise

    The answer is the *recorded* one, so every replay sends the same prompts whatever the engine under test says.
    Raises TraceError if a message text is missing (length-only trace).
    """
    conversation: list[Message] = []
    parent: Call | None = None
    for current in _lineage(program, call):
        if current.messages is None:
            raise TraceError(
                "no message text: the trace holds lengths only", program_id=program.program_id, call_id=current.call_id
            )
        if parent is not None:
            if parent.output_text is not None:
                conversation.append({"role": "assistant", "content": parent.output_text})
            if current.keep:
                del conversation[current.keep :]
        conversation.extend(current.messages)
        parent = current
    return conversation


def _lineage(program: Program, call: Call) -> list[Call]:
    """The calls whose messages `call` inherits, oldest first, ending with `call`."""
    lineage = [call]
    while lineage[-1].inherits:
        lineage.append(program.call(lineage[-1].parents[0]))
    return lineage[::-1]


def thread_ids(program: Program) -> dict[str, str]:
    """Call id → thread ("t0", "t1", …). A thread is a chain of calls, one active at a time.

    A call continues the thread of its first parent that no earlier call has continued; a root, and every further
    child of a fork, starts a new thread. A join continues one of its parents' threads; the others end there.
    """
    threads: dict[str, str] = {}
    continued: set[str] = set()
    num_threads = 0
    for call in program.calls:
        parent = next((p for p in call.parents if p not in continued), None)
        if parent is None:
            threads[call.call_id] = f"t{num_threads}"
            num_threads += 1
        else:
            continued.add(parent)
            threads[call.call_id] = threads[parent]
    return threads
