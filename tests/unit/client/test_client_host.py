"""The SDK never breaks its host: servers that are no gateway, do not answer or are old; ends that nobody tells."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import aiohttp
import httpx2
import pytest
import requests

import agentix
from agentix.client import backend
from client_sessions import settle

ASK = backend._ask  # before the fixture of these tests takes its place


def posted(url: str, times: int = 1) -> list[dict[str, str]]:
    """Our headers, short, of calls within a program to a server that answers everything."""
    seen: list[dict[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append({k.removeprefix("x-agentix-"): v for k, v in request.headers.items() if k.startswith("x-agentix-")})
        return httpx2.Response(200)

    with agentix.program("p"), httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        for _ in range(times):
            client.post(f"{url}/v1/chat/completions", json={})
    settle()
    return seen


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_that_is_no_gateway_gets_no_headers_and_no_end(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(method: str, *_: Any) -> int:
        asked.append(method)
        return status

    monkeypatch.setattr(backend, "_ask", ask)
    assert posted("http://127.0.0.1:8000", times=2) == [{}, {}]
    assert asked == ["POST"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, None])
def test_a_gateway_that_cannot_open_the_program_now_gets_its_headers(
    status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_ask", lambda *_: status)
    assert [(seen["call"], seen["parent"]) for seen in posted("http://127.0.0.1:8000", times=2)] == [("1", ""), ("2", "1")]


def test_calls_to_a_server_that_is_no_gateway_are_no_parents(told: list[Any]) -> None:
    seen: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("x-agentix-parent"))
        return httpx2.Response(200)

    with agentix.program("p"), httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        for host in ("gateway", "plain", "gateway"):
            client.post(f"http://{host}/v1/chat/completions", json={})
    assert seen == ["", None, "1"]


def test_a_server_that_takes_connections_and_never_answers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_ask", ASK)
    monkeypatch.setattr(backend, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert len(posted(url, times=2)) == 2
        assert len(posted(url)) == 1
        silent.accept()[0].close()
        silent.settimeout(0.05)
        with pytest.raises(TimeoutError):
            silent.accept()


@contextmanager
def recording_gateway() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server that opens and ends programs, and keeps (method, path) of what it is asked."""
    asked: list[tuple[str, str]] = []

    class Answers(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.path))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="the block was left"),
        pytest.param("sys.exit(3)", id="the block is left by exiting"),
        pytest.param("raise RuntimeError", id="the block is left by an error"),
        pytest.param("forgotten.__enter__(); call()", id="the block is never left"),
    ],
)
def test_the_end_is_told_before_the_process_is_gone(end: str) -> None:
    code = """
import sys, httpx2, agentix
def call():
    httpx2.post(sys.argv[1] + "/v1/chat/completions", json={}, trust_env=False)
forgotten = agentix.program("forgotten")
"""
    code += end if "forgotten" in end else f"with forgotten:\n    call()\n    {end}"
    with recording_gateway() as (url, asked):
        subprocess.run([sys.executable, "-c", code, url], timeout=60, stderr=subprocess.DEVNULL, check=False)
    assert [method for method, _ in asked] == ["POST", "POST", "DELETE"]
    assert [path for _, path in asked[:2]] == ["/v1/programs", "/v1/chat/completions"]
    assert asked[2][1].startswith("/v1/programs/")


def test_requests_and_aiohttp_come_back_too() -> None:
    owners: list[tuple[type, str]] = [(requests.Session, "send"), (aiohttp.ClientSession, "_request")]
    before = [vars(owner)[name] for owner, name in owners]
    agentix.instrument()
    assert [vars(owner)[name].__wrapped__ for owner, name in owners] == before
    agentix.uninstrument()
    assert [vars(owner)[name] for owner, name in owners] == before
