"""The documentation's site: it builds without a warning, whole, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from doc_pages import DOCS, ROOT

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("a", "href")}


class References(HTMLParser):
    """What a page refers to: (tag, target)."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, value) for name, value in attrs if value and (tag, name) in LOADED]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves a cache beside its configuration."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def references(site: Path) -> Iterator[tuple[Path, str, str]]:
    """Of all pages but that for addresses which do not exist: it is shown anywhere, so its own begin at the server's root."""
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html":
            continue
        for tag, target in References(page).found:
            yield page, tag, target


def test_every_page_is_there(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        path = page.relative_to(DOCS)
        name = "index.html" if path.stem == "README" else f"{path.stem}.html"
        assert (site / path.parent / name).is_file(), path


def test_what_pages_load_and_link_to_is_in_the_site(site: Path) -> None:
    missing = []
    for page, tag, target in references(site):
        parts = urlsplit(target)
        if tag == "a" and parts.scheme in {"http", "https"}:
            continue
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if parts.scheme or parts.netloc or not path.is_file():
            missing.append((str(page.relative_to(site)), target))
    assert missing == []


def test_styles_load_nothing_from_elsewhere(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert [sheet for sheet in sheets if re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text())] == []
