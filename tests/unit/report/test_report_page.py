"""The page and the pictures: whole, alone, the same every time."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agentix.cli import main
from agentix.core.errors import ConfigError
from agentix.report.write import ReportFiles, write_report
from result_files import ab_document, bench_document, simulation_document, written

pytest.importorskip("matplotlib")


class Reader(HTMLParser):
    """What a page holds: tags, ids, what its attributes refer to, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in {"href", "xlink:href", "src"}:
                self.references.append(value or "")
            elif name in {"aria-labelledby", "aria-describedby"}:
                self.references += [f"#{target}" for target in (value or "").split()]
            self.references += re.findall(r"url\((.*?)\)", value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def results(tmp_path: Path) -> list[str]:
    """Two repeats of two arms at two rates, from a benchmark."""
    means = {"<base>": (4.0, 8.0), "new": (2.0, 4.1)}
    return [
        f"{arm}={written(tmp_path, f'{arm}-{rate}-{seed}.json', bench_document(jct, 2 * jct, rate_per_s=rate, seed=seed))}"
        for arm, jcts in means.items()
        for rate in (1.0, 2.0)
        for seed, jct in enumerate(jcts)
    ]


def page_of(results: list[str], folder: Path) -> str:
    write_report(results, ReportFiles(page=folder / "report.html"))
    return (folder / "report.html").read_text()


def test_the_page_needs_nothing_else_and_refers_to_what_is_in_it(results: list[str], tmp_path: Path) -> None:
    reader = Reader(page_of(results, tmp_path))
    assert not {"script", "link", "iframe", "img", "object"} & set(reader.tags)
    assert len(reader.ids) == len(set(reader.ids))
    assert {reference.removeprefix("#") for reference in reader.references} <= set(reader.ids)
    assert reader.tags.count("svg") == 5  # latency, two distributions, shares, timeline
    assert "Against <base>" in reader.text
    assert "0.51 [" in reader.text  # the geometric mean of 0.5 and 4.1 ÷ 8
    assert reader.text.count("As a table") == 5


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    result = written(tmp_path, "x.json", ab_document(("a", 1, 2.0), ("b", 1, 1.0)))
    assert page_of([result], tmp_path) == page_of([result], tmp_path)


def test_results_that_differ_in_what_they_ran_are_pointed_out(tmp_path: Path) -> None:
    one = written(tmp_path, "one.json", bench_document(1.0, complete=False))
    other = written(tmp_path, "other.json", bench_document(1.0, workload="other.jsonl"))
    text = Reader(page_of([one, other], tmp_path)).text
    assert "the results differ in their workload: test.jsonl; other.jsonl" in text
    assert "one.json: the run was interrupted" in text


@pytest.mark.parametrize(
    "document", [ab_document(("a", 1, 2.0), ("b", 1, 1.0)), simulation_document(("a", 1, 2.0), ("b", 1, 1.0))]
)
def test_the_other_commands_results_make_pages_too(document: dict[str, object], tmp_path: Path) -> None:
    text = Reader(page_of([written(tmp_path, "x.json", document)], tmp_path)).text
    assert "Against a" in text
    assert "0.50" in text  # of a single pair, so without an interval
    assert "0.50 [" not in text


def test_pictures_are_written_beside_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = written(tmp_path, "a.json", bench_document(1.0, 2.0))
    arguments = ["agentix", "report", result, "--out", str(tmp_path / "r.html"), "--svg", str(tmp_path / "s")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--png", str(tmp_path / "p")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    names = ["distribution-jct", "distribution-program_token_latency", "latency", "shares", "timeline"]
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [f"{name}.svg" for name in names]
    for name in names:
        assert (tmp_path / "s" / f"{name}.svg").read_text().startswith("<?xml")
        assert (tmp_path / "p" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "var(--" not in (tmp_path / "s" / "latency.svg").read_text()


def test_without_the_library_that_draws_the_extra_is_named(
    results: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "agentix.report.draw", raising=False)
    with pytest.raises(ConfigError, match=r"matplotlib is not installed; run: pip install 'agentix\[plot\]'"):
        write_report(results, ReportFiles(page=tmp_path / "report.html"))
    with pytest.raises(ConfigError, match="cannot write to"):
        ReportFiles(page=tmp_path)
