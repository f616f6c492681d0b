"""The dashboard in a real browser, which Playwright drives. Its own errors and what it asks of others are found out here."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, async_playwright

from gateway_system import System

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Root has no sandbox; the others keep the browser from asking its maker for updates.
_ARGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def find_browser() -> str:
    """A Chromium: AGENTIX_BROWSER, or one on the path. Without any the test is skipped, but in CI it fails."""
    found = os.environ.get("AGENTIX_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        told = f"no browser: set AGENTIX_BROWSER, or install one of {', '.join(_NAMES)} (`scripts/install.sh dev` as root does)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


@asynccontextmanager
async def dashboard(system: System, *, may_fail: str = "", **context: Any) -> AsyncIterator[Page]:
    """The page of the system's gateway, open. No error may come up in its console, but with `may_fail` in it."""
    path = find_browser()
    errors: list[str] = []
    asked: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_ARGS)
        options = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **context}
        page = await (await browser.new_context(**options)).new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: errors.append(message.text) if message.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(f"{system.url}/ui")
        yield page
        await browser.close()
    assert [e for e in errors if not may_fail or may_fail not in e] == []
    assert [url for url in asked if not url.startswith(f"{system.url}/")] == []


def row(page: Page, program_id: str) -> Locator:
    """A program's line in the table."""
    return page.get_by_role("row").filter(has=page.get_by_role("gridcell", name=program_id, exact=True))


async def serious_findings(page: Page) -> list[str]:
    """What keeps people from using the page, as axe-core sees it."""
    results = await Axe().run(page)
    found = [v for v in results.response["violations"] if v["impact"] in {"serious", "critical"}]
    return [f"{v['help']}: {node['html'][:200]} {node.get('failureSummary', '')}" for v in found for node in v["nodes"]]
