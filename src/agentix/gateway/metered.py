"""What counts against budgets although a client might leave it uncounted: several answers, answers that nobody waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentix.gateway.accounting import Account
from agentix.gateway.errors import HTTPError
from agentix.gateway.outcome import Outcome

if TYPE_CHECKING:
    from agentix.gateway.exchange import Call

# Of an answer that came to nobody: how fast it may have been written, and how long it may have become if no end was set.
_TOKENS_PER_S = 50.0
_MOST_UNSEEN = 4096
_ENDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def num_answers(body: Mapping[str, Any]) -> int:
    """How many answers a call asks for at a time: `n` (or `best_of`) to each of its prompts. What is no number is the engine's.

    So many calls it is on the budgets. Embeddings are no answers: a list of inputs is one call.
    """
    each, prompts = max(_counts(body, ("n", "best_of")), default=1), body.get("prompt")
    if not isinstance(prompts, list) or all(isinstance(item, int) for item in prompts):
        return each
    return each * len(prompts)


def check_metered(body: Mapping[str, Any]) -> None:
    """Raise HTTPError 400 for what nobody can meter: a response in the background is computed after its call is over."""
    if body.get("background"):
        message = "background: responses in the background count against no budget, so who has one cannot have them"
        raise HTTPError(400, message, param="background", code="background_not_metered")


def tokens_used(call: Call, prompt_tokens: int, in_engine_s: float | None) -> int | None:
    """All the tokens of a call that is over; None: the engine has not counted, and it is not the client's doing.

    A client that hangs up, or has its program cancelled, keeps the engine from counting. Then its prompt counts as estimated,
    `prompt_tokens`, and of the answer what has passed, an event for a token, or what may have been written in `in_engine_s`
    (None: no engine had it) if it would have come as a whole.
    """
    account = call.account
    if in_engine_s is None or call.outcome not in {Outcome.DISCONNECTED, Outcome.CANCELLED}:
        return counted(account)
    at_most = min(_counts(call.body, _ENDS), default=_MOST_UNSEEN) * num_answers(call.body)
    written = call.num_events if call.body.get("stream") is True else min(at_most, round(in_engine_s * _TOKENS_PER_S))
    prompt = prompt_tokens if account.prompt_tokens is None else account.prompt_tokens
    return prompt + max(written, account.output_tokens or 0)


def counted(account: Account) -> int | None:
    """All the tokens of a call, as far as the engine has counted; None if it has not."""
    found = [n for n in (account.prompt_tokens, account.output_tokens) if n is not None]
    return sum(found) if found else None


def _counts(body: Mapping[str, Any], names: tuple[str, ...]) -> list[int]:
    """Those of the fields that are numbers above 0."""
    return [v for v in map(body.get, names) if isinstance(v, int) and not isinstance(v, bool) and v > 0]
