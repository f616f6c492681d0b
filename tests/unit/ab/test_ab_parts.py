"""Small parts of a run: what a client numbers, what an engine tells, how results are kept."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentix import wire
from agentix.ab.counters import ask_num_preemptions, ask_version, read_parking
from agentix.ab.priority import CallsSoFar
from agentix.ab.store import SUMMARY, Store
from agentix.bench.reply import Reply
from agentix.core.errors import ConfigError


class Server:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.ended: list[str] = []
        self.open = asyncio.Event()

    async def chat(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        self.sent.append((headers[wire.PROGRAM_HEADER], body["priority"]))
        await self.open.wait()
        return Reply()

    async def end_program(self, program_id: str) -> str | None:
        self.ended.append(program_id)
        return "what went wrong"


async def test_a_call_s_priority_is_the_number_of_calls_of_its_program_that_were_answered() -> None:
    server = Server()
    client = CallsSoFar(server)

    async def call(program_id: str) -> None:
        await client.chat({"model": "m"}, {wire.PROGRAM_HEADER: program_id})

    side_by_side = [asyncio.create_task(call("p")) for _ in range(2)]
    await asyncio.sleep(0)
    server.open.set()
    await asyncio.gather(*side_by_side)
    await call("p")
    await call("q")
    assert server.sent == [("p", 0), ("p", 0), ("p", 2), ("q", 0)]
    assert await client.end_program("p") == "what went wrong"
    assert server.ended == ["p"]
    await call("p")
    assert server.sent[-1] == ("p", 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{engine="0",model_name="m"} 3.0\n', 3),
        ('vllm:num_preemptions_total{engine="0"} 3.0\nvllm:num_preemptions_total{engine="1"} 4.0', 7),
        ("vllm:num_preemptions_total 5", 5),
        ('vllm:num_preemptions_created{engine="0"} 1.7e9\nvllm:prompt_tokens_total{engine="0"} 9', None),
        ("vllm:num_preemptions_total x", None),
        ("", None),
    ],
)
async def test_preemptions_are_read_from_the_engine_s_metrics(text: str, expected: int | None) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, text=text))
    async with httpx2.AsyncClient(transport=transport) as client:
        assert await ask_num_preemptions(client, "http://engine") == expected


async def test_an_engine_that_tells_nothing_is_no_error() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/version":
            raise httpx2.ConnectError("gone")
        return httpx2.Response(404, text="vllm:num_preemptions_total 5")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        assert await ask_num_preemptions(client, "http://engine") is None
        assert await ask_version(client, "http://engine") is None


def test_the_plug_in_s_last_account_counts() -> None:
    lines = [
        "INFO agentix: ParkingCounts(num_parks=1, num_resumes=0)",
        "INFO agentix: ParkingCounts(num_parks=12, num_resumes=7)",
        "INFO something else",
    ]
    assert read_parking(lines) == {"num_parks": 12, "num_resumes": 7}
    assert read_parking(["INFO something else"]) == {}


def test_a_finished_run_is_found_again_only_with_its_configuration(tmp_path: Path) -> None:
    Store(folder=tmp_path / "new" / "folder", resume=False).save("a", {"x": 1, "ab": {"seed": 1, "args": ["b"]}})
    store = Store(folder=tmp_path / "new" / "folder", resume=True)
    assert store.load("a", {"seed": 1, "args": ("b",)}) == {"x": 1, "ab": {"seed": 1, "args": ["b"]}}
    assert store.load("b", {"seed": 1}) is None
    with pytest.raises(ConfigError, match="was measured with other args, seed: choose another folder"):
        store.load("a", {"seed": 2})


def test_a_file_that_is_no_result_is_an_error(tmp_path: Path) -> None:
    store = Store(folder=tmp_path, resume=True)
    for content in (b"", b"text", gzip.compress(b"[1]"), gzip.compress(b'{"a": 1}')):
        store.path("a").write_bytes(content)
        with pytest.raises(ConfigError, match="is not the result of a run"):
            store.load("a", {})


def test_results_are_neither_overwritten_nor_mixed_by_mistake(tmp_path: Path) -> None:
    store = Store(folder=tmp_path, resume=False)
    store.save_summary({"a": None})
    assert json.loads((tmp_path / SUMMARY).read_text()) == {"a": None}
    with pytest.raises(ConfigError, match="holds results: go on with --resume"):
        Store(folder=tmp_path, resume=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot create the folder"):
        Store(folder=tmp_path / "file", resume=False)
