"""The Markdown pages of the project as data: their code blocks, links and anchors."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_HTML_LINK = re.compile(r"""<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=["']([^"']+)["']""")
_HTML_ANCHOR = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; `language` is what stands behind the fence. `line` counts from 1."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{shown(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Every Markdown page that people read."""
    return sorted(
        [*ROOT.glob("*.md"), *(page for name in ("docs", "examples", "deploy") for page in (ROOT / name).rglob("*.md"))]
    )


def shown(page: Path) -> str:
    """Its path in the project."""
    return str(page.relative_to(ROOT))


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks of these languages, on all pages."""
    return [
        Block(page=page, line=token.map[0] + 1 if token.map else 0, language=token.info.strip(), text=token.content)
        for page in pages()
        for token in _tokens(page)
        if token.type == "fence" and token.info.strip() in languages
    ]


def code_spans(page: Path) -> Iterator[str]:
    """What stands in backticks in its text, on one line each."""
    for token in _inline(page):
        if token.type == "code_inline":
            yield " ".join(token.content.split())


def links(page: Path) -> Iterator[str]:
    """Targets of its links and pictures."""
    for token in _inline(page):
        target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src") if token.type == "image" else None
        if isinstance(target, str):
            yield target
        if token.type == "html_inline":
            yield from _HTML_LINK.findall(token.content)
    for token in _tokens(page):
        if token.type == "html_block":
            yield from _HTML_LINK.findall(token.content)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can stand behind # in a link to the page: its headings as GitHub names them, and ids in its HTML."""
    found: dict[str, int] = {}
    tokens = _tokens(page)
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        text = "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})
        slug = slugged(text)
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    written = (name for token in _inline(page) if token.type == "html_inline" for name in _HTML_ANCHOR.findall(token.content))
    blocks_of_html = (t.content for t in tokens if t.type == "html_block")
    return frozenset([*found, *written, *(name for html in blocks_of_html for name in _HTML_ANCHOR.findall(html))])


def slugged(heading: str) -> str:
    """The anchor of a heading: lower case, words joined by hyphens, no punctuation."""
    text = unicodedata.normalize("NFKC", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def broken(page: Path, link: str) -> str | None:
    """What is wrong with a link of the page; None: nothing, or it leads out of the project."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if ROOT not in target.parents or not target.exists():
        return f"{link}: there is no such file"
    if target.is_dir():
        return f"{link}: a folder; name a page in it"
    if parts.fragment and target.suffix == ".md" and unquote(parts.fragment) not in anchors(target):
        return f"{link}: the page has no such heading; it has {', '.join(sorted(anchors(target)))}"
    return None


@cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def _inline(page: Path) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or ()
