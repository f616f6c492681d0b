"""Recordings: each call is told once or counted as lost, to whom it may be told, and only while somebody listens."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from agentix.core import ProcessTable
from agentix.gateway import recordings as module
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import Turn
from agentix.gateway.outcome import Outcome
from agentix.gateway.recordings import MAX_RECORDINGS, UNREAD_S, Recording, Recordings
from agentix.gateway.tenants import Tenant, bind_tenant, key_digest
from observed_calls import Calls

SECRET = "the launch code is 0000"


def tenant(name: str, *, admin: bool = False) -> Tenant:
    return Tenant(name=name, key_digests=(key_digest(name),), admin=admin)


def request(recording_id: str = "", *, after: str = "", of: Tenant | None = None, body: bytes = b"", **headers: str) -> Request:
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "query_string": f"after={after}".encode() if after else b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "path_params": {"recording_id": recording_id},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(bind_tenant(scope, of) if of else scope, receive)


def told(response: Response) -> Any:
    return json.loads(bytes(response.body))


class Clock:
    """The moment that the recordings see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now_s))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def calls() -> Calls:
    table = ProcessTable()
    return Calls(Recordings(table), table)


def recordings(calls: Calls) -> Recordings:
    assert isinstance(calls.observer, Recordings)
    return calls.observer


async def begin(calls: Calls, of: Tenant | None = None) -> str:
    answer = told(await recordings(calls).begin(request(of=of)))
    return str(answer["id"])


def test_what_does_not_fit_is_lost_oldest_first_and_counted() -> None:
    recording = Recording("r", None, began_s=0.0, read_s=0.0, max_bytes=10)
    for line in (b"1234", b"5678", b"90"):
        recording.add(line)
    assert (recording.num_calls, recording.num_lost) == (3, 0)
    recording.add(b"abc")
    assert (recording.num_calls, recording.num_lost) == (4, 1)
    assert recording.page(0, 99) == [(2, b"5678"), (3, b"90"), (4, b"abc")]
    recording.add(b"x" * 11)  # more than there is room for at all
    assert (recording.num_calls, recording.num_lost, recording.page(0, 99)) == (5, 5, [])


def test_a_reader_that_asks_again_gets_it_again_and_what_it_has_is_let_go() -> None:
    recording = Recording("r", None, began_s=0.0, read_s=0.0, max_bytes=10)
    for line in (b"1234", b"5678"):
        recording.add(line)
    assert recording.page(0, 5) == recording.page(0, 5) == [(1, b"1234")]
    assert recording.page(1, 99) == [(2, b"5678")]
    recording.add(b"123456")
    assert recording.num_lost == 0  # there was room again
    assert [number for number, _ in recording.page(1, 99)] == [2, 3]
    assert recording.page(3, 99) == []


async def test_a_call_is_told_with_everything_but_its_text(calls: Calls, clock: Clock) -> None:
    call = calls.arrive("before", "c", now=99.0)
    recording_id = await begin(calls)
    calls.end(call, 101.0, Outcome.REFUSED)
    call = calls.arrive("p", "c", now=102.0, body={"messages": [{"role": "user", "content": SECRET}]})
    calls.observer.answered(call, [(Turn("assistant", SECRET),), (Turn("assistant", "another choice"),)])
    calls.end(call, 104.0, prompt_tokens=7, output_tokens=3)
    answer = await recordings(calls).read(request(recording_id))
    assert SECRET.encode() not in bytes(answer.body)
    refused, finished = told(answer)["data"]
    assert (refused["program_id"], refused["begun_before"], refused["outcome"]) == ("before", True, "refused")
    assert (refused["prompt"], refused["answer"]) == ([], [])
    [[prompt]] = finished.pop("prompt")
    [[[digest, length]]] = finished.pop("answer")
    assert length == len(SECRET)
    assert prompt[0] != digest
    assert finished == {
        "tenant": "",
        "program_id": "p",
        "program_class": "",
        "begun_before": False,
        "thread_id": "",
        "call_id": "c",
        "parents": None,
        "outcome": "finished",
        "arrived_s": 102.0,
        "over_s": 104.0,
        "prompt_tokens": 7,
        "output_tokens": 3,
    }


async def test_a_recording_with_text_is_told_what_prompts_say_and_others_beside_it_are_not(calls: Calls, clock: Clock) -> None:
    without = await begin(calls)
    begun = await recordings(calls).begin(request(body=b'{"with_text": true}'))
    said = [{"role": "user", "content": SECRET}]
    keys = {"authorization": "Bearer of-the-client", "x-api-key": "of-the-client"}
    calls.end(calls.arrive("p", "c", now=102.0, body={"messages": said}, headers=keys), 104.0)
    calls.end(calls.arrive("p", "d", now=105.0, body={"messages": said}), 106.0, Outcome.REFUSED)
    calls.end(calls.arrive("p", "e", now=107.0, body={"prompt": [1, 2]}), 108.0)
    read = await recordings(calls).read(request(told(begun)["id"]))
    assert [call.get("messages") for call in told(read)["data"]] == [said, None, None]
    assert b"of-the-client" not in bytes(read.body)
    other = await recordings(calls).read(request(without))
    assert SECRET.encode() not in bytes(other.body)
    assert not any("messages" in call for call in told(other)["data"])


async def test_text_that_cannot_be_told_costs_the_text_and_not_the_recording(calls: Calls, clock: Clock) -> None:
    begun = await recordings(calls).begin(request(body=b'{"with_text": true}'))
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    calls.end(calls.arrive("p", "c", now=102.0, body={"messages": [{"role": "user", "content": "Hi", "x": deep}]}), 104.0)
    (call,) = told(await recordings(calls).read(request(told(begun)["id"])))["data"]
    assert call["messages"] is None


async def test_without_keys_text_is_for_the_gateway_s_own_machine(calls: Calls, clock: Clock) -> None:
    far = request(body=b'{"with_text": true}')
    far.scope["client"] = ("10.0.0.9", 4000)
    with pytest.raises(HTTPError, match="own machine alone") as found:
        await recordings(calls).begin(far)
    assert (found.value.status, found.value.code) == (403, "not_local")
    with_key = request(body=b'{"with_text": true}', of=tenant("acme"))
    with_key.scope["client"] = ("10.0.0.9", 4000)
    assert (await recordings(calls).begin(with_key)).status_code == 201
    with pytest.raises(HTTPError, match="must be true or false, not '1'"):
        await recordings(calls).begin(request(body=b'{"with_text": 1}'))


async def test_pages_say_how_far_they_go(clock: Clock) -> None:
    table = ProcessTable()
    calls = Calls(Recordings(table, page_bytes=1), table)  # a call a page
    recording_id = await begin(calls)
    for n in range(3):
        calls.end(calls.arrive("p", f"c{n}", now=101.0), 102.0)
    found, after, more = [], "", True
    while more:
        answer = told(await recordings(calls).read(request(recording_id, after=after)))
        found += [call["call_id"] for call in answer["data"]]
        after, more = str(answer["next"]), answer["has_more"]
    assert found == ["c0", "c1", "c2"]
    assert told(await recordings(calls).read(request(recording_id, after=after)))["data"] == []
    with pytest.raises(HTTPError, match="after must be"):
        await recordings(calls).read(request(recording_id, after="x"))


async def test_it_ends_when_somebody_says_so_or_nobody_reads(calls: Calls, clock: Clock) -> None:
    ended, unread, read = [await begin(calls) for _ in range(3)]
    await recordings(calls).end(request(ended))
    clock.now_s += UNREAD_S
    await recordings(calls).read(request(read))
    clock.now_s += 1
    calls.end(calls.arrive("p", "c", now=clock.now_s), clock.now_s)
    assert len(told(await recordings(calls).read(request(read)))["data"]) == 1
    for gone in (ended, unread, "rec-other"):
        with pytest.raises(HTTPError, match="no recording") as found:
            await recordings(calls).read(request(gone))
        assert found.value.status == 404


async def test_there_are_so_many_at_a_time_and_no_more(calls: Calls, clock: Clock) -> None:
    for _ in range(MAX_RECORDINGS):
        await begin(calls)
    with pytest.raises(HTTPError, match="under way already") as found:
        await begin(calls)
    assert found.value.status == 409
    clock.now_s += UNREAD_S + 1
    await begin(calls)  # in the place of one that nobody reads


async def test_a_tenant_records_its_own_calls_and_an_admin_everybodys(calls: Calls, clock: Clock) -> None:
    of_acme, of_root = await begin(calls, tenant("acme")), await begin(calls, tenant("root", admin=True))
    for name in ("acme", "blue"):
        body = {"messages": [{"role": "user", "content": "the same words"}]}
        calls.end(calls.arrive(f"{name}/p", "c", now=101.0, tenant=name, body=body), 102.0)
    own = told(await recordings(calls).read(request(of_acme, of=tenant("acme"))))["data"]
    assert [call["tenant"] for call in own] == ["acme"]
    every = told(await recordings(calls).read(request(of_root, of=tenant("root", admin=True))))["data"]
    assert [call["tenant"] for call in every] == ["acme", "blue"]
    assert every[0]["prompt"] != every[1]["prompt"]  # tenants share no prefix cache
    assert every[0]["prompt"] != own[0]["prompt"]  # nor recordings a key
    with pytest.raises(HTTPError, match="no recording"):
        await recordings(calls).read(request(of_acme, of=tenant("blue")))
    with pytest.raises(HTTPError, match="no recording"):
        await recordings(calls).end(request(of_root, of=tenant("acme")))


async def test_pages_of_other_sites_and_unknown_options_are_refused(calls: Calls, clock: Clock) -> None:
    with pytest.raises(HTTPError) as found:
        await recordings(calls).begin(request(origin="http://evil.example"))
    assert found.value.status == 415
    with pytest.raises(HTTPError, match="unknown field 'text'") as found:
        await recordings(calls).begin(request(body=b'{"text": true}'))
    assert found.value.status == 400
