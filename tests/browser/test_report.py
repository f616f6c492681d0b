"""A report in a real browser, from a file: nothing is asked of the network, nothing keeps people out."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from agentix.report.write import ReportFiles, write_report
from dashboard_page import find_browser, serious_findings
from result_files import bench_document, written

pytest.importorskip("matplotlib")

GROUNDS = {"light": "rgb(251, 251, 250)", "dark": "rgb(21, 24, 27)"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_report_opens_anywhere(scheme: str, tmp_path: Path) -> None:
    browser_path = find_browser()
    results = [
        f"{arm}={written(tmp_path, f'{arm}{seed}.json', bench_document(jct, 3 * jct, seed=seed))}"
        for arm, jct in (("stock", 4.0), ("plas", 2.0))
        for seed in (1, 2)
    ]
    page_path = tmp_path / "report.html"
    write_report(results, ReportFiles(page=page_path))
    problems: list[str] = []
    asked: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        context = await browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": 380, "height": 800}
        )
        page = await context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None)
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(page_path.as_uri())
        await expect(page.get_by_role("heading", name="Agentix report: stock, plas")).to_be_visible()
        await expect(page.get_by_role("img", name="Where the time went")).to_be_visible()
        await expect(page.get_by_role("region", name="Ratios at 1 programs/s")).to_contain_text("0.50 [0.50, 0.50]")
        await page.get_by_text("As a table").first.click()
        await expect(page.get_by_role("region", name="Program token latency by load, as a table")).to_be_visible()
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == GROUNDS[scheme]
        assert await page.evaluate("document.documentElement.scrollWidth") <= 380
        assert await serious_findings(page) == []
        await browser.close()
    assert problems == []
    assert asked == [page_path.as_uri()]
