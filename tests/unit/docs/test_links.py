"""Links between pages lead somewhere, and every page is reachable on the site."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import doc_pages
from doc_pages import DOCS, ROOT, anchors, broken, links, pages, shown, slugged

SITE: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_links_and_anchors_of_a_page_lead_somewhere(page: Path) -> None:
    assert [why for link in links(page) if (why := broken(page, link))] == []


def nav_files(nav: Any) -> list[str]:
    """The files of a navigation, depth first."""
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [file for item in items for file in nav_files(item)]


def test_every_page_of_the_docs_is_in_the_navigation_once() -> None:
    assert sorted(nav_files(SITE["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize(
    ("heading", "slug"),
    [("Who may see what", "who-may-see-what"), ("What it costs, and n > 1", "what-it-costs-and-n--1"), ("Ä_b-c", "ä_b-c")],
)
def test_anchors_are_those_of_github(heading: str, slug: str) -> None:
    assert slugged(heading) == slug


def test_links_that_lead_nowhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_pages, "ROOT", tmp_path)
    (tmp_path / "sub").mkdir()
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    other.write_text("# One\n## Two words\n## Two words\n")
    page.write_text(
        "# A\n[1](b.md) [2](b.md#two-words-1) [3](#a) [4](https://x.example/y) ![5](c.png) [6](b.md#three) [7](sub) "
        '[8](../b.md) <a href="d.md">9</a>\n\n`[no](link.md)`\n\n```\n[no](link.md)\n```\n'
    )
    assert anchors(other) == {"one", "two-words", "two-words-1"}
    wrong = [link for link in links(page) if broken(page, link)]
    assert wrong == ["c.png", "b.md#three", "sub", "../b.md", "d.md"]
