"""Which engines can a call go to at all? Asked when it arrives, and again whenever it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.core.balancers import EngineView
from agentix.gateway.engines import EngineState
from agentix.gateway.errors import HTTPError

_DOUBT = 1.5  # an estimate of a prompt's tokens is that far off at the most
_OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a call needs of an engine.

    model       its name; None: any will do
    num_tokens  of context, as far as that is certain
    asked       the same in words
    engine_id   the one that has what the call goes on from; None: any
    """

    model: str | None = None
    num_tokens: float = 0.0
    asked: str = ""
    engine_id: str | None = None

    def are_met_by(self, state: EngineState) -> bool:
        """Whether the call may go there, whether or not it takes calls now."""
        limit = state.max_tokens(self.model)
        is_right_one = self.engine_id is None or self.engine_id == state.target.engine_id
        return is_right_one and state.serves(self.model) and (limit is None or self.num_tokens <= limit)


def read_needs(body: Mapping[str, Any], prompt_tokens: int, *, engine_id: str | None = None) -> Needs:
    """What a call with this body needs; `prompt_tokens`: estimated.

    Context is certain where a prompt is given as token ids: then what may be generated counts too. Text must be longer by half
    than would fit, and an engine that is asked to cut prompts fits them all.
    """
    model, exact = body.get("model"), _num_ids(body.get("prompt"))
    if exact is None:
        num_tokens, asked = prompt_tokens / _DOUBT, f"a prompt of about {prompt_tokens}"
    else:
        num_tokens, asked = exact + _output_tokens(body), f"a prompt of {exact} and an answer of {_output_tokens(body)}"
    if body.get("truncate_prompt_tokens") is not None:
        num_tokens = 0.0
    name = model if isinstance(model, str) and model else None
    return Needs(model=name, num_tokens=num_tokens, asked=asked, engine_id=engine_id)


def those_that_fit(states: Mapping[str, EngineState], engines: list[EngineView], needs: Needs) -> list[EngineView]:
    """Those of the engines that meet the needs. Raises HTTPError: 400 if it is too long for all, 503 if its own one is down."""
    fitting = [e for e in engines if needs.are_met_by(states[e.engine_id])]
    if fitting:
        return fitting
    mine = [states[e.engine_id] for e in engines if needs.engine_id in {None, e.engine_id}]
    limits = [limit for state in mine if (limit := state.max_tokens(needs.model)) is not None]
    if not limits:
        raise HTTPError.no_engine()
    raise HTTPError.too_long(needs.asked, max(limits))


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
