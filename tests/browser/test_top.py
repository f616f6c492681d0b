"""`agentix top`, driven by Textual's pilot, in front of a gateway that answers from a script."""

from __future__ import annotations

from typing import Any

import httpx2
from textual.widgets import DataTable, Static

from agentix.ui.feed import Feed
from agentix.ui.terminal import Top


class FakeGateway:
    """Has some programs; remembers what it is asked to do with them."""

    def __init__(self, *program_ids: str) -> None:
        self.program_ids = list(program_ids)
        self.done: list[str] = []
        self.status = 200

    def feed(self) -> Feed:
        return Feed(httpx2.AsyncClient(base_url="http://gateway", transport=httpx2.MockTransport(self.answer)))

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            self.done.append(request.url.path)
            return httpx2.Response(self.status, json={"error": {"message": "not now"}} if self.status != 200 else {})
        if request.url.path == "/health":
            return httpx2.Response(200, json={"engines": [{"id": "e0", "healthy": True}]})
        rows = [self.row(n, program_id) for n, program_id in enumerate(self.program_ids)]
        return httpx2.Response(
            200, json={"complete": True, "data": rows, "gone": [], "has_more": False, "next": "x.0", "now_s": 50.0}
        )

    def row(self, number: int, program_id: str) -> dict[str, Any]:
        call = {"call_id": "1", "engine_id": "e0", "answering": True, "age_s": 1.0}
        return {
            "id": program_id,
            "class": "",
            "age_s": 10.0,
            "service_s": float(number),
            "waiting_s": 0.0,
            "engine_ids": ["e0"],
            "home_engine_id": None,
            "num_finished": 0,
            "ended": False,
            "threads": {"": [call]},
        }


def shown(app: Top) -> list[str]:
    table = app.query_one(DataTable)
    return [str(table.get_row_at(n)[0]) for n in range(table.row_count)]


def told(app: Top) -> str:
    return str(app.query_one("#summary", Static).render())


async def settled(pilot: Any) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def test_programs_are_listed_sorted_and_filtered() -> None:
    app = Top(FakeGateway("alpha", "beta", "gamma").feed(), period_s=60.0)
    async with app.run_test(size=(160, 20)) as pilot:
        await settled(pilot)
        assert shown(app) == ["alpha", "beta", "gamma"]
        assert told(app).startswith("3 programs · 3 answering · 1 of 1 engines healthy · by state")
        await pilot.press("s")
        assert shown(app) == ["gamma", "beta", "alpha"]  # by service, largest first
        await pilot.press("slash", *"amm")
        assert shown(app) == ["gamma"]
        await pilot.press("enter", "q")  # q is a key again, not a letter
    assert app.return_code == 0


async def test_escape_drops_the_filter() -> None:
    app = Top(FakeGateway("alpha", "beta").feed(), period_s=60.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("slash", *"bet")
        assert shown(app) == ["beta"]
        await pilot.press("escape")
        assert shown(app) == ["alpha", "beta"]


async def test_keys_act_on_the_program_under_the_cursor_which_stays_on_it() -> None:
    gateway = FakeGateway("a", "b/1", "c")
    app = Top(gateway.feed(), period_s=60.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("down", "p")
        await settled(pilot)
        assert gateway.done == ["/v1/programs/b/1/pause"]
        gateway.program_ids.insert(0, "new")
        await pilot.press("r")
        await settled(pilot)
        await pilot.press("r")
        await settled(pilot)
        assert gateway.done[1:] == ["/v1/programs/b/1/resume"] * 2


async def test_cancelling_asks_first() -> None:
    gateway = FakeGateway("a")
    app = Top(gateway.feed(), period_s=60.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("c", "n")
        await settled(pilot)
        assert gateway.done == []
        await pilot.press("c")
        gateway.program_ids.append("b")
        await app._bring()  # what changes meanwhile is shown, and the question stays the same
        await pilot.press("y")
        await settled(pilot)
        assert gateway.done == ["/v1/programs/a/cancel"]
        assert shown(app) == ["a", "b"]


async def test_what_goes_wrong_is_told_and_the_table_stays() -> None:
    gateway = FakeGateway("a")
    app = Top(gateway.feed(), period_s=60.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        gateway.status = 409
        await pilot.press("p")
        await settled(pilot)
        assert [n.message for n in app._notifications] == ["not now"]
        assert shown(app) == ["a"]
