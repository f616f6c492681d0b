"""The real SDKs, with a transport in place of a network: which headers arrive, and what never may go wrong."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import agentix
from agentix.client import backend, sends
from agentix.core.errors import ConfigError
from agentix.gateway.apis import APIS
from client_sessions import settle

MESSAGES: Any = [{"role": "user", "content": "hi"}]
CHAT = {
    "id": "c", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}  # fmt: skip
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
Answer = Callable[[httpx2.Request], httpx2.Response]


class Server:
    """Keeps our headers of every request, short: program, thread, call, parent; answers as both SDKs expect."""

    def __init__(self, *statuses: int) -> None:
        self.seen: list[dict[str, str]] = []
        self.transport = httpx2.MockTransport(self._answer)
        self._statuses = list(statuses)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append({k.removeprefix("x-agentix-"): v for k, v in request.headers.items() if k.startswith("x-agentix-")})
        status = self._statuses.pop(0) if self._statuses else 200
        return httpx2.Response(status, json=MESSAGE if request.url.path.endswith("/messages") else CHAT)

    def client(self, url: str = "http://gateway:8080/v1", **options: Any) -> openai.OpenAI:
        http = httpx2.Client(transport=self.transport)
        return openai.OpenAI(base_url=url, api_key="k", http_client=http, **options)

    def async_client(self, url: str = "http://gateway:8080/v1") -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=url, api_key="k", http_client=httpx2.AsyncClient(transport=self.transport))


def chat(client: openai.OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(model="m", messages=MESSAGES, **options).choices[0].message.content


def test_openai_calls_say_whose_they_are_and_the_session_opens_and_ends(told: list[Any]) -> None:
    server = Server()
    with agentix.program("research") as program, server.client() as client:
        assert [chat(client), chat(client)] == ["hello", "hello"]
        assert told == [("POST", "http://gateway:8080/v1/programs", {"program_id": program.id, "class": "research"})]
    assert server.seen == [
        {"program": program.id, "thread": "main", "call": "1", "parent": ""},
        {"program": program.id, "thread": "main", "call": "2", "parent": "1"},
    ]
    settle()
    assert told[1:] == [("DELETE", f"http://gateway:8080/v1/programs/{program.id}", None)]


async def test_anthropic_async_calls_in_parallel_open_one_session(told: list[Any]) -> None:
    server = Server()
    http = httpx2.AsyncClient(transport=server.transport)
    async with anthropic.AsyncAnthropic(base_url="http://127.0.0.1:9", api_key="k", http_client=http) as client:

        @agentix.program("reviewer")
        async def review() -> None:
            async def call() -> None:
                await client.messages.create(model="m", max_tokens=9, messages=MESSAGES)

            await asyncio.gather(call(), call())
            await call()

        await review()
        await review()
    first, second = server.seen[:3], server.seen[3:]
    for seen in (first, second):
        assert len({s["program"] for s in seen}) == 1
        assert [s["parent"] for s in seen[:2]] == ["", ""]
        assert set(seen[2]["parent"].split(",")) == {seen[0]["call"], seen[1]["call"]}
        assert {s["thread"] for s in seen[:2]} == {"t1", "t2"}
        assert seen[2]["thread"] == "main"
    assert first[0]["program"] != second[0]["program"]
    settle()
    assert [method for method, *_ in told] == ["POST", "DELETE"] * 2


def test_plain_httpx_too_and_a_program_within_a_program_joins_it() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("x-agentix-program"))
        return httpx.Response(200)

    @agentix.program("inner")
    def inner(client: httpx.Client) -> None:
        client.post("http://localhost/v1/completions")

    with agentix.program("outer") as outer, httpx.Client(transport=httpx.MockTransport(answer)) as client:
        inner(client)
        with agentix.program("also inner") as joined:
            assert joined is outer
        client.post("http://localhost/v1/responses")
        client.get("http://localhost/v1/models")
        client.post("http://localhost/v1/messages/count_tokens")
    assert seen == [outer.id, outer.id, None, None]


def test_a_retried_call_has_the_parents_of_the_one_that_failed() -> None:
    server = Server(200, 503)
    with agentix.program("p"), server.client(max_retries=1) as client:
        chat(client)
        chat(client)
        chat(client)
    assert [(s["call"], s["parent"]) for s in server.seen] == [("1", ""), ("2", "1"), ("3", "1"), ("4", "3")]


def test_a_client_that_names_its_program_is_left_alone() -> None:
    server = Server()
    with agentix.program("p"), server.client(default_headers={"X-Agentix-Program": "mine"}) as client:
        chat(client)
    assert server.seen == [{"program": "mine"}]


@pytest.mark.parametrize(
    ("url", "only", "annotated"),
    [
        ("https://api.openai.com/v1", None, False),
        ("http://10.1.2.3:8000/v1", None, True),
        ("http://[::1]:8000/v1", None, True),
        ("http://8.8.8.8/v1", None, False),
        ("http://gateway.local/behind/a/path/v1", None, True),
        ("https://gw.example.com/agentix/v1", "https://gw.example.com/agentix/v1/", True),
        ("https://gw.example.com/agentix/v1", ["http://x", "https://gw.example.com/agentix"], True),
        ("https://gw.example.com/other/v1", "https://gw.example.com/agentix", False),
        ("http://localhost:8080/v1", "https://gw.example.com", False),
    ],
)
@pytest.mark.parametrize("by_environment", [False, True])
def test_only_private_hosts_or_those_that_are_named_get_headers(
    url: str, only: Any, annotated: bool, by_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_environment and only is not None:
        monkeypatch.setenv("AGENTIX_URL", only if isinstance(only, str) else ",".join(only))
    else:
        agentix.instrument(only=only)
    server = Server()
    with agentix.program("p"), server.client(url) as client:
        chat(client)
    assert bool(server.seen[0]) == annotated


def test_a_program_without_calls_tells_nobody_and_one_that_fails_is_ended(told: list[Any]) -> None:
    with agentix.program("quiet"):
        pass
    with (
        pytest.raises(openai.InternalServerError),
        agentix.program("failing"),
        Server(200, 500).client(max_retries=0) as client,
    ):
        _ = chat(client), chat(client)
    settle()
    assert [method for method, *_ in told] == ["POST", "DELETE"]


def test_header_calls_are_ended_where_agentix_url_says(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_URL", "http://gateway/v1")
    assert agentix.headers() == {}
    with agentix.program("p") as program:
        assert agentix.headers() == {
            "x-agentix-program": program.id, "x-agentix-thread": "main", "x-agentix-call": "1", "x-agentix-parent": ""
        }  # fmt: skip
    settle()
    assert told == [("DELETE", f"http://gateway/v1/programs/{program.id}", None)]


def test_uninstrument_restores_everything_and_stays_off() -> None:
    owners: list[tuple[type, str]] = [
        (asyncio.BaseEventLoop, "create_task"), (threading.Thread, "start"), (ThreadPoolExecutor, "submit"),
        (httpx.Client, "send"), (httpx.AsyncClient, "send"), (httpx2.Client, "send"), (httpx2.AsyncClient, "send"),
    ]  # fmt: skip
    before = [vars(owner)[name] for owner, name in owners]
    agentix.instrument()
    agentix.instrument()
    during = [vars(owner)[name] for owner, name in owners]
    assert not any(a is b for a, b in zip(before, during, strict=True))
    assert [inspect.signature(f) for f in during] == [inspect.signature(f) for f in before]
    agentix.uninstrument()
    assert [vars(owner)[name] for owner, name in owners] == before
    server = Server()
    with agentix.program("p"), server.client() as client:
        chat(client)
    assert server.seen == [{}]


def test_a_wrapper_of_somebody_else_survives_uninstrument_and_ours_in_it_passes_on() -> None:
    original = httpx2.Client.send
    agentix.instrument()
    ours = httpx2.Client.send

    def theirs(self: httpx2.Client, *args: Any, **kwargs: Any) -> httpx2.Response:
        return ours(self, *args, **kwargs)

    server = Server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.Client, "send", theirs)
        agentix.uninstrument()
        assert vars(httpx2.Client)["send"] is theirs
        with agentix.program("p"), server.client() as client:
            assert chat(client) == "hello"
        patch.setattr(httpx2.Client, "send", original)
    httpx2.Client.send = original  # type: ignore[method-assign]
    assert server.seen == [{}]


def test_a_fault_of_ours_is_one_warning_and_the_calls_go_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(sends, "headers_of", broken)
    server = Server()
    with caplog.at_level(logging.WARNING, "agentix.client"), agentix.program("p"), server.client() as client:
        assert [chat(client), chat(client)] == ["hello", "hello"]
    assert server.seen == [{}, {}]
    assert [r.getMessage() for r in caplog.records] == ["a call goes on without its program's headers (said once)"]


async def test_what_a_program_leaves_behind_is_not_annotated_after_its_end() -> None:
    server = Server()
    go = asyncio.Event()
    async with server.async_client() as client:

        async def late() -> None:
            await go.wait()
            await client.chat.completions.create(model="m", messages=MESSAGES)

        async with agentix.program("p"):
            task = asyncio.create_task(late())
        go.set()
        await task
    assert server.seen == [{}]


def test_a_forked_process_neither_annotates_nor_ends_the_program(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    server = Server()
    with agentix.program("p"), server.client() as client:
        chat(client)
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        chat(client)
    settle()
    assert [bool(s) for s in server.seen] == [True, False]
    assert [method for method, *_ in told] == ["POST"]


def test_the_routes_are_those_of_the_gateway() -> None:
    assert set(backend.ROUTES) == {api.path for api in APIS if api.scheduled}


@pytest.mark.parametrize("name", ["", "x" * 257, "two\nlines", print])
def test_a_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="must be 1 to 256 printable characters"):
        agentix.program(name)


def test_generators_and_blocks_in_use_are_refused() -> None:
    def generator() -> Any:
        yield 1

    with pytest.raises(ConfigError, match="is a generator"):
        agentix.program("p")(generator)
    block = agentix.program("p")
    with block, pytest.raises(ConfigError, match="entered already"), block:
        pass
    with block:  # one after the other is fine
        pass
