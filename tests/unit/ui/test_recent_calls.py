"""The ring of calls that are over."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from agentix.core import ProcessTable
from agentix.gateway.recent_calls import RecentCall, RecentCalls
from agentix.gateway.tenants import Tenant, bind_tenant, key_digest


def call(call_id: str, tenant: str = "") -> RecentCall:
    return RecentCall(
        tenant=tenant,
        program_id="p",
        program_class="",
        thread_id="",
        call_id=call_id,
        engine_id="e",
        outcome="finished",
        arrived_s=1.0,
        sent_s=2.0,
        first_token_s=None,
        over_s=3.0,
        prompt_tokens=7,
        cached_tokens=None,
        output_tokens=3,
    )


async def ask(calls: RecentCalls, after: str = "", tenant: Tenant | None = None) -> Any:
    scope: dict[str, Any] = {"type": "http", "query_string": f"after={after}".encode(), "headers": []}
    answer = await calls.show(Request(bind_tenant(scope, tenant) if tenant else scope))
    return json.loads(bytes(answer.body))


def ids(answer: Any) -> list[str]:
    return [told["call_id"] for told in answer["data"]]


async def test_each_call_is_told_once_and_the_oldest_are_forgotten() -> None:
    calls = RecentCalls(ProcessTable(), max_calls=3)
    assert ids(await ask(calls)) == []
    calls.add(call("1"))
    first = await ask(calls)
    assert ids(first) == ["1"]
    assert ids(await ask(calls, first["next"])) == []
    for name in ("2", "3"):
        calls.add(call(name))
    assert ids(await ask(calls, first["next"])) == ["2", "3"]
    for name in ("4", "5", "6", "7"):
        calls.add(call(name))
    assert ids(await ask(calls, first["next"])) == ids(await ask(calls)) == ["5", "6", "7"]  # 2, 3 and 4 are gone
    assert ids(await ask(RecentCalls(ProcessTable()), first["next"])) == []  # another life of the gateway


async def test_a_tenant_is_told_of_its_own_calls_alone() -> None:
    calls = RecentCalls(ProcessTable())
    x, ops = (Tenant(name=name, key_digests=(key_digest(name),), admin=name == "ops") for name in ("x", "ops"))
    calls.add(call("1", "x"))
    calls.add(call("2", "y"))
    assert (ids(await ask(calls, tenant=x)), ids(await ask(calls, tenant=ops))) == (["1"], ["1", "2"])
