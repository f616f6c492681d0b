"""What did a call cost? Read from the engine's answer, whatever its API, without changing what the client gets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_LONGEST_MS = 1e12  # 30 years
_MOST_TOKENS = 10**12  # JSON's integers have no end; sums of what does not fit a float fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Figures the engine gave, None where it gave none.

    `service_s` and `waiting_s` come from vLLM's `--enable-per-request-metrics`: from the step that first scheduled the
    call to its last token, and from its arrival in the engine to that step. So does `prefill_s`, the part of `service_s` up
    to the first token. `prompt_tokens` includes what came from a cache, `cached_tokens`.
    """

    service_s: float | None = None
    prefill_s: float | None = None
    waiting_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    def updated(self, later: Account) -> Account:
        """These figures with those that came later in the same stream, which go before."""
        pairs = {name: (getattr(later, name), getattr(self, name)) for name in self.__slots__}
        return Account(**{name: old if new is None else new for name, (new, old) in pairs.items()})


def read_account(answer: Any) -> Account:
    """The account in a complete answer or in a stream's event; empty where nothing of the kind is there.

    Usage stands beside the answer's content (Chat, Completions, Messages' `message_delta`, embeddings), in `response` (an event
    of Responses) or in `message` (`message_start` of Messages).
    """
    if not isinstance(answer, dict):
        return Account()
    inner = next((answer[key] for key in ("response", "message") if isinstance(answer.get(key), dict)), answer)
    usage, metrics = inner.get("usage"), answer.get("metrics")
    usage = usage if isinstance(usage, dict) else {}
    queue_s, first_s, rest_s = (
        (_seconds(metrics.get(k)) for k in ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"))
        if isinstance(metrics, dict)
        else (None, None, None)
    )
    return Account(
        service_s=None if first_s is None else first_s + (rest_s or 0.0),
        prefill_s=first_s,
        waiting_s=queue_s,
        prompt_tokens=_prompt_tokens(usage),
        output_tokens=_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        cached_tokens=_cached_tokens(usage),
    )


def _prompt_tokens(usage: dict[str, Any]) -> int | None:
    """OpenAI counts cached tokens among the prompt's, Anthropic beside them."""
    tokens = _count(usage.get("prompt_tokens", usage.get("input_tokens")))
    cached = (_count(usage.get(key)) for key in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    return None if tokens is None else tokens + sum(c or 0 for c in cached)


def _cached_tokens(usage: dict[str, Any]) -> int | None:
    """Chat and Completions, Responses, and Messages each have a place of their own for it."""
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    return _count(details.get("cached_tokens") if isinstance(details, dict) else usage.get("cache_read_input_tokens"))


def _count(value: Any) -> int | None:
    """A number of tokens; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def _seconds(value_ms: Any) -> float | None:
    """A duration in seconds; None for what is none: text, NaN, a negative number."""
    return value_ms / 1000 if isinstance(value_ms, int | float) and 0 <= value_ms <= _LONGEST_MS else None


def parse_json(data: bytes) -> Any:
    """What a body or an event says; None if it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
