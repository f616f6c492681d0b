"""Calls that no engine will ever have room for."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.core.balancers import EngineView
from agentix.gateway.config import EngineTarget
from agentix.gateway.engines import EngineState
from agentix.gateway.errors import HTTPError
from agentix.gateway.fit import Needs, read_needs, those_that_fit

SMALL = EngineState(EngineTarget(engine_id="small", url="http://s"), contexts={"m": 100})
LARGE = EngineState(EngineTarget(engine_id="large", url="http://l"), contexts={"m": 1000})
UNKNOWN = EngineState(EngineTarget(engine_id="unknown", url="http://u"))


def fitting(body: dict[str, Any], prompt_tokens: int, *states: EngineState) -> list[str]:
    by_id = {s.target.engine_id: s for s in states}
    views = [EngineView(engine_id=engine_id) for engine_id in by_id]
    return [e.engine_id for e in those_that_fit(by_id, views, read_needs({"model": "m", **body}, prompt_tokens))]


@pytest.mark.parametrize(
    ("num_ids", "max_tokens", "fits"), [(90, 10, ["small", "large"]), (90, 11, ["large"]), (100, None, ["large"])]
)
def test_token_ids_count_exactly_with_the_answer(num_ids: int, max_tokens: int | None, fits: list[str]) -> None:
    body = {"prompt": [7] * num_ids, "max_tokens": max_tokens}
    assert fitting(body, num_ids, SMALL, LARGE) == fits
    assert fitting({**body, "prompt": [[7], [7] * num_ids]}, num_ids, SMALL, LARGE) == fits


@pytest.mark.parametrize(("prompt_tokens", "fits"), [(150, ["small", "large"]), (151, ["large"])])
def test_text_has_the_benefit_of_the_doubt(prompt_tokens: int, fits: list[str]) -> None:
    assert fitting({"prompt": "text", "max_tokens": 10_000}, prompt_tokens, SMALL, LARGE) == fits


def test_what_fits_nowhere_is_refused_with_both_numbers() -> None:
    with pytest.raises(HTTPError, match="is 1000 tokens; the call asks for a prompt of 999 and an answer of 5") as caught:
        fitting({"prompt": [7] * 999, "max_completion_tokens": 5}, 999, SMALL, LARGE)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    with pytest.raises(HTTPError, match="a prompt of about 1501"):
        fitting({"prompt": "text"}, 1501, LARGE)


def test_engines_that_do_not_tell_or_that_cut_prompts_take_all() -> None:
    assert fitting({"prompt": "text"}, 10**9, SMALL, UNKNOWN) == ["unknown"]
    assert fitting({"prompt": [7] * 5000, "truncate_prompt_tokens": -1}, 5000, SMALL) == ["small"]


def test_a_call_that_goes_on_from_a_response_goes_where_that_is_or_nowhere() -> None:
    by_id = {s.target.engine_id: s for s in (SMALL, LARGE)}
    views = [EngineView(engine_id=engine_id) for engine_id in by_id]
    needs = Needs(model="m", num_tokens=50, engine_id="large")
    assert [e.engine_id for e in those_that_fit(by_id, views, needs)] == ["large"]
    with pytest.raises(HTTPError, match="no engine is available") as caught:
        those_that_fit(by_id, views[:1], needs)
    assert caught.value.status == 503
    with pytest.raises(HTTPError, match="is 100 tokens; the call asks for too much"):
        those_that_fit(by_id, views, Needs(model="m", num_tokens=101, asked="too much", engine_id="small"))
