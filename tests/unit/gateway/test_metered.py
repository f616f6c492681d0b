"""What counts on budgets although the client would rather not have it counted."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.gateway.accounting import Account
from agentix.gateway.errors import HTTPError
from agentix.gateway.exchange import Call
from agentix.gateway.identity import Identity
from agentix.gateway.metered import check_metered, num_answers, tokens_used
from agentix.gateway.outcome import Outcome


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ({}, 1),
        ({"n": 3}, 3),
        ({"n": 2, "best_of": 5}, 5),
        ({"n": 0}, 1),
        ({"n": True}, 1),
        ({"n": "9"}, 1),
        ({"prompt": "one"}, 1),
        ({"prompt": [1, 2, 3]}, 1),  # token ids
        ({"prompt": ["one", "two"]}, 2),
        ({"prompt": [[1, 2], [3]], "n": 4}, 8),
        ({"input": ["one", "two"]}, 1),
    ],
)
def test_a_call_is_as_many_as_the_answers_it_asks_for(body: dict[str, Any], answers: int) -> None:
    assert num_answers(body) == answers


def test_a_response_in_the_background_cannot_be_metered() -> None:
    for body in ({}, {"background": False}, {"background": None}):
        check_metered(body)
    with pytest.raises(HTTPError, match="count against no budget"):
        check_metered({"background": True})


COUNTED = Account(prompt_tokens=7, output_tokens=3)
STREAM = {"stream": True}


@pytest.mark.parametrize(
    ("outcome", "body", "account", "num_events", "in_engine_s", "tokens"),
    [
        (Outcome.FINISHED, {}, COUNTED, 0, 9.0, 10),
        (Outcome.FINISHED, {}, Account(), 0, 9.0, None),
        (Outcome.LOST, {}, Account(), 0, 9.0, None),  # not the client's doing
        (Outcome.DISCONNECTED, {}, Account(), 0, None, None),  # no engine had it
        (Outcome.DISCONNECTED, {}, Account(), 0, 2.0, 100 + 100),  # 50 tokens a second
        (Outcome.CANCELLED, {}, Account(), 0, 2.0, 100 + 100),
        (Outcome.DISCONNECTED, {"max_tokens": 30}, Account(), 0, 2.0, 100 + 30),
        (Outcome.DISCONNECTED, {"max_completion_tokens": 30, "n": 3}, Account(), 0, 2.0, 100 + 90),
        (Outcome.DISCONNECTED, {}, Account(), 0, 1e6, 100 + 4096),
        (Outcome.DISCONNECTED, STREAM, Account(), 40, 2.0, 100 + 40),
        (Outcome.DISCONNECTED, STREAM, Account(), 0, 60.0, 100),  # nothing came of it
        (Outcome.DISCONNECTED, STREAM, COUNTED, 40, 2.0, 7 + 40),  # counted at the beginning of its stream
        (Outcome.DISCONNECTED, STREAM, COUNTED, 1, 2.0, 7 + 3),
    ],
)
async def test_who_hangs_up_is_charged_what_the_engine_may_have_done(
    outcome: Outcome, body: dict[str, Any], account: Account, num_events: int, in_engine_s: float | None, tokens: int | None
) -> None:
    nobody: Any = None
    call = Call(nobody, body, Identity(program_id="p", call_id="c"), nobody, arrived_s=0.0, num_events=num_events)
    call.end(outcome, account=account)
    assert tokens_used(call, 100, in_engine_s) == tokens
