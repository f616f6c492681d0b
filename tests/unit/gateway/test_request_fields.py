"""What is changed in a request on its way to the engine: vendor fields and, on request, volatile preambles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.preambles import normalise
from agentix.gateway.vendor_fields import flatten_xargs, hinted_priority

scalars = st.text("xy", max_size=2) | st.integers() | st.booleans() | st.floats(allow_nan=False)
values = st.recursive(
    scalars | st.none() | st.lists(scalars, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "a_b"]), values))
def test_xargs_become_what_vllm_takes_and_the_client_s_own_keys_stay(xargs: dict[str, Any]) -> None:
    flat = flatten_xargs(xargs)
    for value in flat.values():
        for item in value if isinstance(value, list) else [value]:
            assert isinstance(item, str | int | float)
    kept = {k: v for k, v in xargs.items() if isinstance(v, str | int | float)}
    assert {k: flat[k] for k in kept} == kept
    assert flatten_xargs(flat) == flat


def test_nested_xargs_are_named_by_their_path() -> None:
    nested = {"ctx": {"id": "p", "deep": {"n": 1}, "none": None}, "list": [1, [2]], "ctx_id": "mine"}
    assert flatten_xargs(nested) == {"ctx_id": "mine", "ctx_deep_n": 1}


@pytest.mark.parametrize(
    ("body", "priority"),
    [
        ({"nvext": {"agent_hints": {"priority": 5}}}, -5),
        ({"nvext": {"agent_hints": {"priority": -2}}}, 2),
        ({"nvext": {"agent_hints": {"priority": True}}}, None),
        ({"nvext": {"agent_hints": {"priority": 2**40}}}, None),
        ({"nvext": {"agent_hints": "high"}}, None),
        ({"nvext": None}, None),
        ({}, None),
    ],
)
def test_a_hint_s_priority_counts_the_other_way_round(body: dict[str, Any], priority: int | None) -> None:
    assert hinted_priority(body) == priority


BILLING = "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;"


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        ({"system": f"{BILLING}\nYou are Claude."}, {"system": "You are Claude."}),
        (
            {"system": [{"type": "text", "text": BILLING}, {"type": "text", "text": "x"}]},
            {"system": [{"type": "text", "text": "x"}]},
        ),
        (
            {"messages": [{"role": "system", "content": f"{BILLING}\nx"}, {"role": "user", "content": BILLING}]},
            {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": BILLING}]},
        ),
        ({"system": f"Say {BILLING}"}, {"system": f"Say {BILLING}"}),
        (
            {"system": 3, "messages": ["x", {"role": "system"}]},
            {"system": 3, "messages": ["x", {"role": "system", "content": None}]},
        ),
    ],
)
def test_only_volatile_preambles_are_taken_out(body: dict[str, Any], clean: dict[str, Any]) -> None:
    assert normalise(body) == clean
