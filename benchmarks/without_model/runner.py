"""A stand-in for vLLM's model runner: it keeps what that keeps of requests, and KV memory as the tokens written into it.

Every step checks that what the scheduler asks for can be computed: that all tokens before it are known and stand in the
blocks that the request reads. The next token is a hash of all before it, so that a slip anywhere changes the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STOP_TOKEN = 0
NUM_TOKENS = 40


def next_token(tokens: Sequence[int]) -> int:
    """What the "model" says after `tokens`; about one answer in forty tokens ends by itself."""
    return zlib.crc32(bytes(tokens)) % NUM_TOKENS


def answer(prompt: Sequence[int], max_tokens: int) -> list[int]:
    """The whole answer, as any correct engine gives it."""
    tokens: list[int] = []
    while len(tokens) < max_tokens and (not tokens or tokens[-1] != STOP_TOKEN):
        tokens.append(next_token([*prompt, *tokens]))
    return tokens


@dataclass(slots=True)
class _State:
    """What the runner knows of a request: all its tokens, its own samples among them, and its blocks."""

    tokens: list[int]
    num_prompt_tokens: int
    block_ids: list[int]


class Runner:
    """`num_states`: slots for states, as the V2 runner has them; None: a V1 runner, which keeps any number.

    V1 holds a persistent batch, which a request leaves as soon as a step does without it; back in it, its tokens are what
    the scheduler sends. V2 forgets a request only when it is over or preempted, and takes all its tokens when it comes back.
    """

    def __init__(self, block_size: int, num_states: int | None) -> None:
        self._block_size = block_size
        self._num_states = num_states
        self._states: dict[str, _State] = {}
        self._batch: set[str] = set()
        self._memory: dict[int, list[int | None]] = {}

    def execute(self, output: Any) -> dict[str, list[int]]:
        """The tokens that the step samples, per request."""
        gone = set(output.finished_req_ids)
        if self._num_states is not None:
            gone |= output.preempted_req_ids or set()
        for request_id in gone:
            self._states.pop(request_id, None)
        computed = self._update(output, output.num_scheduled_tokens.keys())
        assert self._num_states is None or len(self._states) <= self._num_states, "more requests than slots for states"
        return {i: self._compute(self._states[i], computed[i], n) for i, n in output.num_scheduled_tokens.items()}

    def _update(self, output: Any, scheduled: Any) -> dict[str, int]:
        """Take in the scheduler's news; returns how many tokens of each request are computed already."""
        cached = output.scheduled_cached_reqs
        self._batch &= scheduled - cached.resumed_req_ids
        computed = {}
        for new in output.scheduled_new_reqs:
            tokens = list(new.prefill_token_ids if self._num_states is not None else new.prompt_token_ids)
            (block_ids,) = new.block_ids
            self._states[new.req_id] = _State(tokens, len(new.prompt_token_ids), list(block_ids))
            computed[new.req_id] = new.num_computed_tokens
        for place, request_id in enumerate(cached.req_ids):
            state = self._states[request_id]
            if self._num_states is None:
                num_output_tokens = cached.num_output_tokens[place]
                del state.tokens[state.num_prompt_tokens + num_output_tokens :]  # of output that vLLM has thrown away
                if request_id not in self._batch and num_output_tokens:
                    state.tokens[state.num_prompt_tokens :] = cached.all_token_ids[request_id][-num_output_tokens:]
            new_block_ids = cached.new_block_ids[place]
            if request_id in cached.resumed_req_ids:
                (state.block_ids,) = ([*ids] for ids in new_block_ids)
            elif new_block_ids is not None:
                state.block_ids.extend(new_block_ids[0])
            computed[request_id] = cached.num_computed_tokens[place]
        self._batch |= scheduled
        return computed

    def _compute(self, state: _State, num_computed: int, num_tokens: int) -> list[int]:
        end = num_computed + num_tokens
        assert end <= len(state.tokens), "a step over tokens that nobody knows yet"
        for place in range(num_computed, end):
            block = self._memory.setdefault(state.block_ids[place // self._block_size], [None] * self._block_size)
            block[place % self._block_size] = state.tokens[place]
        cache = [token for block_id in state.block_ids for token in self._memory.get(block_id, [None] * self._block_size)]
        assert cache[:end] == state.tokens[:end], "the request's blocks do not hold its tokens"
        if end < len(state.tokens):
            return []  # a part of the prompt
        state.tokens.append(next_token(state.tokens))
        return state.tokens[-1:]
