"""What an engine can hold and how fast it fills it: what a policy is told when it decides whose context stays."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class EngineCapacity:
    """One engine's memory, as its shell knows it; the shell may change the figures as it learns.

    kv_tokens            tokens of context that its KV cache holds
    num_slots            calls that it runs at once
    prefill_s_per_token  seconds of the device that one token of a prompt takes, 0: not known (yet)
    """

    kv_tokens: int
    num_slots: int
    prefill_s_per_token: float = 0.0
