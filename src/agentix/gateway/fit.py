"""Which engines can a call fit into at all? One that fits none is refused before it waits for its turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentix.core.balancers import EngineView
from agentix.gateway.engines import EngineState
from agentix.gateway.errors import HTTPError

_DOUBT = 1.5  # an estimate of a prompt's tokens is that far off at the most
_OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def those_that_fit(
    states: Mapping[str, EngineState], engines: list[EngineView], body: Mapping[str, Any], prompt_tokens: int
) -> list[EngineView]:
    """The engines whose longest context the call does not certainly exceed. Raises HTTPError 400 if there is none.

    It is certain where a prompt is given as token ids: then what may be generated counts too. Text must be longer by half
    than would fit, and an engine that is asked to cut prompts fits them all. `prompt_tokens`: estimated.
    """
    if body.get("truncate_prompt_tokens") is not None:
        return engines
    exact = _num_ids(body.get("prompt"))
    needed = prompt_tokens / _DOUBT if exact is None else exact + _output_tokens(body)
    limits = {e.engine_id: states[e.engine_id].max_tokens(body.get("model")) for e in engines}
    fitting = [e for e in engines if (limit := limits[e.engine_id]) is None or needed <= limit]
    if not fitting:
        text, ids = f"a prompt of about {prompt_tokens}", f"a prompt of {exact} and an answer of {_output_tokens(body)}"
        raise HTTPError.too_long(text if exact is None else ids, max(n for n in limits.values() if n is not None))
    return fitting


def _num_ids(prompt: Any) -> int | None:
    """How many tokens a prompt has that is given as token ids, the longest if there are several; None for text."""
    if not isinstance(prompt, list) or not prompt:
        return None
    if all(isinstance(item, list) for item in prompt):
        lengths = [_num_ids(item) for item in prompt]
        return max((n for n in lengths if n is not None), default=None)
    return len(prompt) if all(isinstance(item, int) for item in prompt) else None


def _output_tokens(body: Mapping[str, Any]) -> int:
    """The longest answer that the call asks for; 1 if it does not say."""
    values = (body.get(name) for name in _OUTPUT_FIELDS)
    return max((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), default=1)
