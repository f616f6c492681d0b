"""The dashboard, in a real browser, in front of the real gateway."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from playwright.async_api import Page, expect

from agentix.core.events import ProgramStarted
from agentix.gateway.admission_settings import AdmissionSettings
from agentix.gateway.tenants import Tenant, Tenants, key_digest
from dashboard_page import dashboard, row, serious_findings
from fake_engine import FakeEngine
from gateway_system import System, eventually, gateway

VIEWS = ("Programs", "Timeline", "Engines", "Latency")


def start(system: System, *program_ids: str, now: float = 1.0) -> None:
    for program_id in program_ids:
        system.table.apply(ProgramStarted(now=now, program_id=program_id))


def hang(system: System, engine: FakeEngine, program_id: str, **body: Any) -> asyncio.Task[Any]:
    engine.mode = "hang"
    system.client.timeout = 60.0  # a browser may take its time to start
    return asyncio.create_task(system.chat({"X-Agentix-Program": program_id}, **body))


async def shown(page: Page) -> list[str]:
    """Programs on the screen, from above."""
    cells = page.locator("#table .body [role=row]:not([hidden])")
    rows = [(await r.get_attribute("aria-rowindex"), await r.locator(".c-id").inner_text()) for r in await cells.all()]
    return [text for _, text in sorted(rows, key=lambda r: int(r[0] or 0))]


async def test_the_table_follows_what_happens() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        await system.post("/v1/programs", {"program_id": "first", "class": "coder"})
        async with dashboard(system) as page:
            await expect(page.locator("#live")).to_contain_text("live")
            await expect(row(page, "first")).to_contain_text("idle")
            call = hang(system, engine, "second", stream=True)
            await expect(row(page, "second")).to_contain_text("answering")
            await expect(page.locator("#totals")).to_contain_text("active calls")
            assert (await shown(page))[0] == "second"  # the busiest first
            await system.client.delete("/v1/programs/first")
            await expect(row(page, "first")).to_have_count(0)
            await system.client.post("/v1/programs/second/cancel")
            await call
            await expect(row(page, "second")).to_contain_text("idle")
            await expect(row(page, "second").locator(".c-done")).to_have_text("0 ✕1")


async def test_the_page_may_load_and_run_what_comes_with_it_and_nothing_else() -> None:
    async with gateway(FakeEngine()) as system:
        page = await system.client.get("/ui/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        again = await system.client.get("/ui/", headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304
        assert (await system.client.get("/ui/../app.py")).status_code == 404
        assert (await system.client.post("/ui/")).status_code == 405


async def test_calls_are_cancelled_after_a_question() -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        call = hang(system, engine, "a/b & c")
        async with dashboard(system) as page:
            await row(page, "a/b & c").click()
            detail = page.get_by_role("complementary", name="Program")
            await expect(detail).to_contain_text("sent")
            await detail.get_by_role("button", name="Cancel calls").click()
            await page.get_by_role("button", name="Back").click()
            assert not call.done()
            await detail.get_by_role("button", name="Cancel calls").click()
            await page.get_by_role("dialog").get_by_role("button", name="Cancel the calls").click()
            await expect(page.locator("#toast")).to_have_text("1 call of a/b & c cancelled")
            assert (await call).status_code == 499
            await expect(detail).to_contain_text("0 finished, 1 aborted")


async def test_five_thousand_programs_are_a_screenful_of_elements() -> None:
    async with gateway(FakeEngine()) as system:
        start(system, *(f"program-{n:04}" for n in range(5000)))
        async with dashboard(system) as page:
            await expect(page.locator("#totals")).to_contain_text("5,000")
            grid = page.get_by_role("grid", name="Programs")
            await expect(grid).to_have_attribute("aria-rowcount", "5001")
            assert await page.locator("#table .body [role=row]").count() < 60
            await grid.focus()
            await page.keyboard.press("End")
            await expect(row(page, "program-4999")).to_be_in_viewport()
            await page.keyboard.press("Home")
            await page.keyboard.press("ArrowDown")
            await expect(row(page, "program-0001")).to_have_attribute("aria-selected", "true")
            await page.get_by_role("button", name="Program", exact=True).click()
            await page.get_by_role("button", name="Program", exact=True).click()
            await expect(page.get_by_role("columnheader", name="Program")).to_have_attribute("aria-sort", "descending")
            await page.keyboard.press("/")
            await page.keyboard.type("-123")
            await expect(page.locator("#count")).to_have_text("10 of 5,000")
            assert await shown(page) == [f"program-123{n}" for n in range(9, -1, -1)]


async def test_it_is_used_with_keys_alone() -> None:
    async with gateway(FakeEngine()) as system:
        start(system, "p", "q")
        async with dashboard(system) as page:
            await page.get_by_role("grid").focus()
            await page.keyboard.press("Home")
            await page.keyboard.press("Enter")
            detail = page.get_by_role("complementary", name="Program")
            await expect(detail.get_by_role("heading", name="p")).to_be_visible()
            await page.keyboard.press("c")
            await expect(page.get_by_role("dialog")).to_contain_text("Cancel the calls of p?")
            await page.keyboard.press("Escape")
            await page.keyboard.press("Escape")
            await expect(detail).to_be_hidden()
            await expect(page.get_by_role("grid")).to_be_focused()
            for number, name in enumerate(VIEWS, start=1):
                await page.keyboard.press(str(number))
                await expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
                await expect(page.get_by_role("tabpanel", name=name)).to_be_visible()


async def test_calls_engines_and_latencies_are_shown() -> None:
    engines = FakeEngine(), FakeEngine(healthy=False)
    async with gateway(*engines) as system:
        await eventually(lambda: not system.app.state.pool.states["e1"].healthy)
        for _ in range(3):
            await system.chat({"X-Agentix-Program": "p"}, stream=True)
        async with dashboard(system) as page:
            await page.get_by_role("tab", name="Timeline").click()
            timeline = page.get_by_role("img", name="Timeline: 3 calls of 1 engine in the last 2 m 00 s")
            await expect(timeline).to_be_visible()
            await page.get_by_text("Latest calls as a table").click()
            await expect(page.locator("#calls tbody tr")).to_have_count(3)
            await expect(page.locator("#calls tbody tr").first).to_contain_text("finished")
            await page.get_by_role("tab", name="Engines").click()
            for name, condition in (("e0", "● healthy"), ("e1", "✕ unhealthy")):
                card = page.get_by_role("article").filter(has=page.get_by_role("heading", name=name))
                await expect(card).to_contain_text(condition)
            await page.get_by_role("tab", name="Latency").click()
            await expect(page.locator("#sample")).to_have_text("3 finished calls of the last 3")
            await page.locator("#by").select_option("engine")
            await expect(page.get_by_role("row", name="e0")).to_contain_text("3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_keeps_people_out(scheme: str) -> None:
    engine = FakeEngine()
    async with gateway(engine) as system:
        start(system, "idle")
        await system.chat({"X-Agentix-Program": "done"}, stream=True)
        call = hang(system, engine, "busy", stream=True)
        async with dashboard(system, color_scheme=scheme) as page:
            await row(page, "busy").click()
            await expect(page.get_by_role("complementary", name="Program")).to_contain_text("answering")
            for name in VIEWS:
                await page.get_by_role("tab", name=name).click()
                assert await serious_findings(page) == []
            await page.get_by_role("button", name="Help").click()
            assert await serious_findings(page) == []
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Theme").click()
            await page.get_by_role("button", name="Theme: light").click()
            await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
            assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"
        await system.client.post("/v1/programs/busy/cancel")
        await call


async def test_a_narrow_screen_has_all_of_it() -> None:
    async with gateway(FakeEngine()) as system:
        start(system, "p")
        async with dashboard(system, viewport={"width": 380, "height": 700}) as page:
            await expect(row(page, "p")).to_be_visible()
            for name in VIEWS:
                await page.get_by_role("tab", name=name).click()
                assert await page.evaluate("document.documentElement.scrollWidth") <= 380
            await page.get_by_role("tab", name="Programs").click()
            await row(page, "p").click()
            await expect(page.get_by_role("button", name="Cancel calls")).to_be_in_viewport()


async def test_the_picture_can_be_frozen() -> None:
    async with gateway(FakeEngine()) as system:
        start(system, "p")
        async with dashboard(system) as page:
            await expect(row(page, "p")).to_be_visible()
            await page.get_by_role("button", name="Freeze").click()
            await expect(page.locator("#live")).to_contain_text("frozen")
            start(system, "q")
            age = await row(page, "p").locator(".c-age").inner_text()
            await page.wait_for_timeout(1500)
            assert await row(page, "p").locator(".c-age").inner_text() == age
            await expect(row(page, "q")).to_have_count(0)
            await page.get_by_role("button", name="Freeze").click()
            await expect(row(page, "q")).to_be_visible()


async def test_a_tenant_s_key_is_asked_for_and_shows_its_own_programs() -> None:
    keys = {name: secrets.token_hex(32) for name in ("x", "ops")}
    tenants = tuple(Tenant(name=name, key_digests=(key_digest(key),), admin=name == "ops") for name, key in keys.items())
    async with gateway(FakeEngine(), tenants=Tenants(tenants)) as system:
        for name, key in keys.items():
            await system.post("/v1/programs", {"program_id": f"of-{name}"}, {"authorization": f"Bearer {key}"})
        async with dashboard(system, may_fail="401") as page:
            dialog = page.get_by_role("dialog", name="This gateway asks for a key")
            await dialog.get_by_label("API key").fill("wrong")
            await page.keyboard.press("Enter")
            await expect(dialog.get_by_role("alert")).to_contain_text("key")
            await dialog.get_by_label("API key").fill(keys["x"])
            await page.keyboard.press("Enter")
            await expect(row(page, "of-x")).to_be_visible()
            await expect(row(page, "of-ops")).to_have_count(0)
            await page.reload()  # the tab still has it
            await expect(row(page, "of-x")).to_be_visible()
            await page.evaluate(f"sessionStorage.setItem('agentix-key', '{keys['ops']}')")
            await page.reload()
            await expect(row(page, "of-ops")).to_be_visible()
            await page.get_by_label("Tenant").select_option("x")
            await expect(row(page, "of-ops")).to_have_count(0)
            await expect(row(page, "of-x")).to_be_visible()


async def test_programs_are_paused_weighed_and_resumed_and_their_waiting_explained() -> None:
    engine = FakeEngine()
    async with gateway(engine, admission=AdmissionSettings(max_concurrency=1)) as system:
        running = hang(system, engine, "running")
        await eventually(lambda: engine.num_active == 1)
        held = hang(system, engine, "waiting")
        async with dashboard(system) as page:
            await expect(row(page, "waiting")).to_contain_text("position 1 of e0")
            await row(page, "waiting").click()
            detail = page.get_by_role("complementary", name="Program")
            await expect(detail).to_contain_text("#1 in line")
            await detail.get_by_role("button", name="Pause").click()
            await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
            await expect(page.locator("#toast")).to_have_text("waiting is paused")
            await expect(row(page, "waiting").locator(".c-state")).to_have_text("‖ paused")
            await detail.get_by_role("button", name="Weight…").click()
            await page.get_by_label("Weight", exact=True).fill("2")
            await page.get_by_role("button", name="Set the weight").click()
            await expect(row(page, "waiting").locator(".c-weight")).to_have_text("2")
            await system.client.post("/v1/programs/running/cancel")
            await running
            assert not held.done()
            await detail.get_by_role("button", name="Resume").click()
            await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
            await expect(row(page, "waiting").locator(".c-state")).to_have_text("▷ sent")
            await page.get_by_role("tab", name="Engines").click()
            await expect(page.get_by_role("article")).to_contain_text("1 of 1")
            await system.client.post("/v1/programs/waiting/cancel")
            await held
