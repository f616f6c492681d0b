"""What `agentix top` makes of a gateway's answers."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from agentix.ui.columns import COLUMNS, duration, summary
from agentix.ui.feed import Feed, GatewayFault, read_program


def row(program_id: str = "p", **changed: Any) -> dict[str, Any]:
    return {
        "id": program_id,
        "tenant": "",
        "class": "coder",
        "age_s": 10.0,
        "service_s": 4.0,
        "waiting_s": 2.0,
        "engine_ids": ["e0", "e1"],
        "home_engine_id": None,
        "num_finished": 3,
        "ended": False,
        "threads": {},
        **changed,
    }


def active(**changed: Any) -> dict[str, Any]:
    return {"call_id": "c", "engine_id": "e0", "answering": False, "age_s": 3.0, **changed}


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "idle"),
        ({"ended": True}, "ended"),
        ({"paused": True}, "paused"),
        ({"threads": {"": [active()]}}, "sent"),
        ({"threads": {"": [active()], "t": [active(answering=True)]}}, "answering"),
        ({"threads": {"": [active(state="held"), active(state="sent")]}}, "sent"),
        ({"threads": {"": [active(state="held")]}}, "held"),
    ],
)
def test_a_program_is_as_busy_as_its_busiest_call(changed: dict[str, Any], state: str) -> None:
    assert read_program(row(**changed), 100.0).state == state


def test_ages_go_on_between_two_answers() -> None:
    program = read_program(row(threads={"": [active(state="held", level=2, waits_for="limit 4 in use")]}), 100.0)
    assert program.age_s(101.5) == 11.5
    assert program.waiting_s(101.5) == 2.0 + 4.5  # of calls that are over, and of the one that came 3 s before
    assert (program.level, program.why, program.engine) == (2, "limit 4 in use", "e0")


def test_an_idle_program_s_engine_is_its_home_else_its_first() -> None:
    assert read_program(row(), 0.0).engine == "e0"
    assert read_program(row(home_engine_id="e1"), 0.0).engine == "e1"
    assert read_program(row(engine_ids=[]), 0.0).engine == ""


class FakeGateway:
    """Answers from a script of changes."""

    def __init__(self, *changes: dict[str, Any], status: int = 200) -> None:
        self.changes = list(changes)
        self.status = status
        self.requests: list[tuple[str, str]] = []

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url="http://gateway", transport=httpx2.MockTransport(self.answer))

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append((request.method, request.url.raw_path.decode()))
        if self.status != 200:
            return httpx2.Response(self.status, json={"error": {"message": "no such thing"}})
        if request.url.path == "/health":
            return httpx2.Response(503, json={"engines": [{"id": "e0", "healthy": False}]})
        if request.url.path == "/v1/changes":
            return httpx2.Response(200, json=self.changes.pop(0))
        return httpx2.Response(200, json={})


def changes(*rows: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"complete": False, "data": list(rows), "gone": [], "has_more": False, "next": "x.1", "now_s": 50.0, **changed}


async def test_what_changes_is_put_together() -> None:
    gateway = FakeGateway(
        changes(row("a"), complete=True, has_more=True, next="x.1"),
        changes(row("b"), next="x.2"),
        changes(row("a", num_finished=4), gone=[{"id": "b", "tenant": ""}], next="x.3"),
        changes(row("c"), complete=True),
    )
    feed = Feed(gateway.client())
    await feed.poll()
    assert gateway.requests == [("GET", "/v1/changes?since="), ("GET", "/v1/changes?since=x.1"), ("GET", "/health")]
    assert [p.id for p in feed.programs.values()] == ["a", "b"]
    await feed.poll()
    assert [(p.id, p.num_finished) for p in feed.programs.values()] == [("a", 4)]
    assert feed.engines == [{"id": "e0", "healthy": False}]  # although that was a 503
    await feed.poll()
    assert list(feed.rows) == [("", "c")]


async def test_programs_are_found_and_sorted() -> None:
    rows = [row("x/1", service_s=1.0), row("y", service_s=3.0, threads={"": [active()]}), row("z", service_s=2.0)]
    feed = Feed(FakeGateway(changes(*rows, complete=True)).client())
    await feed.poll()
    assert [p.id for p in feed.shown("", sort="service")] == ["y", "z", "x/1"]
    assert [p.id for p in feed.shown("", sort="state")] == ["y", "x/1", "z"]
    assert [p.id for p in feed.shown("CODER idle", sort="id")] == ["x/1", "z"]
    text = summary(feed, num_shown=2, sort="id", words="idle")
    assert text == "3 programs · 1 sent · 2 idle · 0 of 1 engines healthy · by id · filter 'idle': 2"


async def test_actions_name_the_program_whatever_its_id_and_its_tenant() -> None:
    gateway = FakeGateway()
    await Feed(gateway.client()).act("pause", read_program(row("a/b c", tenant="t"), 0.0))
    assert gateway.requests == [("POST", "/v1/programs/a%2Fb%20c/pause?tenant=t")]


@pytest.mark.parametrize(("status", "message"), [(401, "set AGENTIX_API_KEY"), (403, "no such thing")])
async def test_a_refusal_says_what_to_do(status: int, message: str) -> None:
    with pytest.raises(GatewayFault, match=message):
        await Feed(FakeGateway(status=status).client()).poll()


@pytest.mark.parametrize(
    "answer",
    [httpx2.Response(200, content=b"<html>"), httpx2.Response(404, json={"detail": "Not Found"})],
    ids=["web page", "vLLM"],
)
async def test_what_is_no_gateway_is_named(answer: httpx2.Response) -> None:
    transport = httpx2.MockTransport(lambda _: answer)
    client = httpx2.AsyncClient(base_url="http://elsewhere", transport=transport)
    with pytest.raises(GatewayFault, match="http://elsewhere is no Agentix gateway"):
        await Feed(client).poll()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (9.96, "10s"), (59.4, "59s"), (60, "1m00s"), (3599, "59m59s"), (3600, "1h00m"),
     (172_799, "47h59m"), (172_800, "2d00h")],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ids_are_never_read_as_markup() -> None:
    program = read_program(row("[red]p[/red]"), 0.0)
    assert COLUMNS[0].cell(program, 0.0).plain == "[red]p[/red]"
    assert COLUMNS[0].cell(read_program(row("x" * 50), 0.0), 0.0).plain == "x" * 35 + "…"
