"""Whatever tenants say, in whatever order: no call joins, goes on from or is told of another tenant's."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import Sessions, make_trail, read_answers, read_claim, read_prompt, split_scoped

# Few words and names, so that tenants say and claim the same all the time.
sessions_said = st.fixed_dictionaries(
    {},
    optional={
        "user": st.sampled_from("pq"),
        "session_id": st.sampled_from("pq"),
        "previous_response_id": st.sampled_from(["r0", "r1"]),
    },
)
headers_said = st.fixed_dictionaries(
    {},
    optional={
        "x-agentix-call": st.sampled_from("12"),
        "x-agentix-thread": st.sampled_from("xy"),
        "x-parent-session-id": st.sampled_from("pq"),
        "traceparent": st.sampled_from([f"00-{digit * 32}-b7ad6b7169203331-01" for digit in "12"]),
    },
)
turns = st.lists(st.sampled_from("ab"), min_size=1, max_size=4)
calls = st.lists(st.tuples(st.sampled_from("tu"), headers_said, sessions_said, turns), max_size=25)


@given(calls)
def test_no_call_ever_meets_another_tenant_s(calls: list[tuple[str, dict[str, str], dict[str, Any], list[str]]]) -> None:
    both, alone = Sessions(), {"t": Sessions(), "u": Sessions()}
    for number, (tenant, named, fields, said) in enumerate(calls):
        headers = {"x-agentix-call": f"call-{number}", **named}
        messages = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(said)]
        trail = make_trail(tenant, read_prompt(Dialect.CHAT, {"messages": messages}))
        seen = []
        for sessions in (both, alone[tenant]):
            identity = sessions.identify(read_claim(headers, fields), trail)
            assert split_scoped(identity.program_id)[0] == tenant
            sessions.arrived(identity, identity.call_id)
            answers = read_answers(Dialect.CHAT, {"choices": [{"message": {"content": "b"}}]})
            sessions.answered(identity, identity.call_id, trail, answers, engine_id=tenant, response_id=f"r{number}")
            seen.append(identity)
        # As if the other tenant did not exist.
        assert seen[0] == seen[1]
        for response in ("r0", "r1"):
            assert both.engine_of(tenant, response) in {None, tenant}
